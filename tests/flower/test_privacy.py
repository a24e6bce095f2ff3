"""Every byte that leaves a client: parameters, counts and scalar metrics, and nothing else."""

import dataclasses
import struct

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from tests.flower.client_side import FakeTime, context, coreset_plan, message, order_for

from fedcore.flower import deadline_mod, fit, on_time
from fedcore.flower.wire import EXAMPLES, Report
from fedcore.types import ClientData

COUNT = 40
SECRET_INPUT, SECRET_LABEL, SECRET_TEXT = 8675.3095703125, 777_001, "confidential"
FIRST_INDEX = 123_456_789
KEYS = [EXAMPLES, *(field.name.replace("_", "-") for field in dataclasses.fields(Report))]


class Planted(Dataset):
    """Samples under numbers, with labels and a text that would be recognised anywhere."""

    def __init__(self):
        self.x = torch.randn(COUNT, 3)
        self.x[:, 0] = SECRET_INPUT

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        own = index - FIRST_INDEX
        return {"x": self.x[own], "y": own % 2, "label": SECRET_LABEL, "text": SECRET_TEXT}


def by_on_time(model, msg, clock):
    data = Planted()
    sampler = range(FIRST_INDEX, FIRST_INDEX + COUNT)
    batches = on_time(DataLoader(data, 8, sampler=sampler), model, msg, context(), clock=clock)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-9)
    for batch in batches:
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(batch["x"]), batch["y"]).backward()
        optimiser.step()
    return batches.reply(model.state_dict())


def by_fit(model, msg, clock):
    data = ClientData(Planted().x, torch.arange(COUNT) % 2)
    return fit(model, data, msg, context(), learning_rate=1e-9, batch_size=8, clock=clock)


def on_the_wire(msg):
    """The bytes that Flower pushes for a message: of itself and of every object in it."""
    return {name: one.deflate() for name, one in get_all_nested_objects(msg).items()}


@pytest.fixture(params=[by_on_time, by_fit], ids=["on_time", "fit"])
def answer(request, monkeypatch):
    monkeypatch.setattr("fedcore.flower.turn.is_warm", lambda _: True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    msg = message(order_for(coreset_plan(10)), model.state_dict())
    reply = deadline_mod(msg, context(), lambda m, _: request.param(model, m, FakeTime().clock()))
    assert reply.content.metric_records["metrics"]["coreset-size"] > 0
    return msg, model, reply


def test_records_are_parameters_and_plain_numbers(answer):
    _, model, reply = answer
    content = reply.content
    assert list(content) == ["arrays", "metrics"]
    arrays, metrics = content.array_records["arrays"], content.metric_records["metrics"]
    state = model.state_dict()
    assert list(arrays) == list(state)
    for name, array in arrays.items():
        assert (array.dtype, tuple(array.shape)) == ("float32", tuple(state[name].shape))
    assert list(metrics) == KEYS
    assert all(type(value) in (int, float) for value in metrics.values())


def test_every_byte_is_accounted_for(answer):
    """A message made of nothing but the model and those numbers is the same, byte by byte."""
    msg, model, reply = answer
    numbers = {name: reply.content.metric_records["metrics"][name] for name in KEYS}
    arrays = ArrayRecord(model.state_dict())
    twin = Message(RecordDict({"arrays": arrays, "metrics": MetricRecord(numbers)}), reply_to=msg)
    twin.metadata.__dict__["_created_at"] = reply.metadata.created_at
    twin.metadata.ttl = reply.metadata.ttl
    assert on_the_wire(twin) == on_the_wire(reply)


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def test_nothing_that_was_planted_is_in_them(answer):
    _, _, reply = answer
    sent = b"".join(on_the_wire(reply).values())
    planted = [
        SECRET_TEXT.encode(),
        struct.pack("<f", SECRET_INPUT),
        struct.pack("<d", SECRET_INPUT),
    ]
    for number in (SECRET_LABEL, *range(FIRST_INDEX, FIRST_INDEX + COUNT)):
        planted += [struct.pack("<i", number), varint(number), str(number).encode()]
    assert [one for one in planted if one in sent] == []


def test_the_search_finds_what_is_there(answer):
    """That it could fail: the same bytes do hold the parameters and the counts."""
    _, model, reply = answer
    sent = b"".join(on_the_wire(reply).values())
    assert struct.pack("<f", model[0].weight[0, 0].item()) in sent
    assert b"num-examples" in sent


def test_what_a_node_remembers_is_how_long_things_took():
    model, own = nn.Linear(3, 2), context()
    msg = message(order_for(coreset_plan(10)))
    batches = on_time(
        DataLoader(Planted(), 8, sampler=range(FIRST_INDEX, FIRST_INDEX + COUNT)), model, msg, own
    )
    batches.report()
    (record,) = own.state.config_records.values()
    assert set(record) == {"selection", "after"}
    assert all(type(value) is float for value in record.values())
