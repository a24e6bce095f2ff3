"""``fit`` takes the simulator's steps, to the last bit, until time is up."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

pytest.importorskip("flwr")

from flwr.app import ArrayRecord
from tests.flower.client_side import NOON, FakeTime, context, coreset_plan, message, order_for

from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.flower import fit
from fedcore.flower.turn import Clock, Turn
from fedcore.flower.wire import SHIFT, read_report
from fedcore.task import Task
from fedcore.types import (
    SIT_OUT,
    ClientData,
    CoresetSpec,
    LocalPlan,
    Phase,
    TrainingSettings,
    Way,
)

COUNT, BATCH = 60, 8
BY_GRADIENTS = CoresetSpec(9, "kmedoids", "last-layer-input")
PLANS = {
    "full": LocalPlan((Phase(3),), Way.FULL),
    "pulled": LocalPlan((Phase(2),), Way.PARTIAL, prox_mu=0.3, step_scale=1.5),
    "coreset": LocalPlan((Phase(1), Phase(3, BY_GRADIENTS)), Way.CORESET),
    "by inputs": coreset_plan(9, proxy="input"),
    "static": LocalPlan((Phase(3, replace(BY_GRADIENTS, proxy="input")),), Way.STATIC_CORESET),
    "forward": LocalPlan((Phase(1, None, 1 / 3), Phase(3, BY_GRADIENTS)), Way.FORWARD_CORESET),
    "random": LocalPlan((Phase(1, CoresetSpec(20, "uniform-plain", "none")),), Way.RANDOM_SUBSET),
    "sits out": SIT_OUT,
}


@pytest.fixture(autouse=True)
def _warm(monkeypatch):
    monkeypatch.setattr("fedcore.flower.turn.is_warm", lambda _: True)


def a_model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.2), nn.Tanh(), nn.Linear(6, 3))


def some_data():
    draws = torch.Generator().manual_seed(4)
    return torch.randn(COUNT, 4, generator=draws), torch.arange(COUNT) % 3


def ours(order, clock, shift=None, data=None):
    """From a model of other parameters: those of the message count."""
    model = a_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    msg = message(order, a_model().state_dict())
    if shift is not None:
        msg.content[SHIFT] = ArrayRecord(dict(shift))
    data = some_data() if data is None else data
    return fit(model, data, msg, context(), learning_rate=0.1, batch_size=BATCH, clock=clock)


def simulated(order, shift=None):
    task, told = Task(a_model()), replace(order.assignment, shift=shift)
    clients = {told.client_id: ClientData(*some_data())}
    executor = SequentialExecutor(task, clients, TrainingSettings(0.1, BATCH))
    (update,) = executor.run(task.initial_params(), [told])
    return update


@pytest.mark.parametrize("clock", [None, FakeTime().clock()], ids=["untimed", "timed"])
@pytest.mark.parametrize("name", PLANS)
def test_it_is_the_simulators_answer(name, clock):
    order = order_for(PLANS[name])
    fitted, update = ours(order, clock), simulated(order)
    found = fitted.content["arrays"].to_torch_state_dict()
    assert found.keys() == update.params.keys()
    for key, value in update.params.items():
        assert torch.equal(found[key], value)
    report, examples = read_report(fitted.content["metrics"])
    assert (report.steps, examples) == (update.steps, COUNT)
    assert report.work == PLANS[name].trained(COUNT)
    assert report.loss_sum == update.loss_sum
    assert report.loss_count == update.loss_count
    assert report.coreset_size == (update.coreset_size or 0)
    assert report.gradient_error == (-1 if update.gradient_error is None else update.gradient_error)
    assert (report.cut_short, report.fell_back) == (0, 0)


def test_a_shift_is_added_as_in_the_simulator():
    order = order_for(PLANS["full"])
    shift = {name: torch.full_like(value, 0.01) for name, value in a_model().state_dict().items()}
    found = ours(order, None, shift).content["arrays"].to_torch_state_dict()
    expected = simulated(order, shift).params
    assert all(torch.equal(found[name], value) for name, value in expected.items())


@pytest.mark.parametrize("data", [TensorDataset(*some_data()), ClientData(*some_data())])
def test_datasets_do_as_well_as_pairs(data):
    order = order_for(PLANS["full"])
    found = ours(order, None, data=data).content["arrays"].to_torch_state_dict()
    assert all(torch.equal(found[n], v) for n, v in simulated(order).params.items())


class Ticking:
    """A steady clock on which every look takes a while: there is one before every step."""

    def __init__(self, seconds):
        self.now, self.seconds = 0.0, seconds

    def clock(self):
        return Clock(wall=lambda: NOON, steady=self.tick)

    def tick(self):
        self.now += self.seconds
        return self.now


def test_it_stops_before_the_step_that_would_be_late():
    time = Ticking(0.25)
    fitted = ours(order_for(PLANS["full"], deadline=5.0), time.clock())
    report, _ = read_report(fitted.content["metrics"])
    assert report.cut_short == 1
    assert 0 < report.steps < 24
    assert report.handler_seconds <= 5.0
    assert report.work == min(8 * report.steps, 60) or report.steps > 8


def test_who_is_cut_in_the_first_epoch_answers_with_what_it_has():
    time = Ticking(0.25)
    fitted = ours(order_for(PLANS["coreset"], deadline=2.0), time.clock())
    report, _ = read_report(fitted.content["metrics"])
    assert (report.cut_short, report.coreset_size, report.loss_count) == (1, 0, 0)
    assert 0 < report.work < COUNT
    start = a_model().state_dict()
    moved = fitted.content["arrays"].to_torch_state_dict()
    assert any(not torch.equal(moved[name], value) for name, value in start.items())


def test_a_coreset_shrinks_to_what_is_left_after_the_first_epoch(monkeypatch):
    """A quarter of a second a sample: 15 seconds for the first epoch."""
    time, note = FakeTime(), Turn.note

    def slowly(self, *most):
        time.now += self.under_way / 4
        note(self, *most)

    monkeypatch.setattr(Turn, "note", slowly)
    plan = LocalPlan((Phase(1), Phase(3, replace(BY_GRADIENTS, budget=40))), Way.CORESET)
    fitted = ours(order_for(plan, deadline=31.0), time.clock())
    report, _ = read_report(fitted.content["metrics"])
    assert report.coreset_size == int((30.38 - 15 - 1.5) * 4 / 3)  # 18 of 40
    assert (report.work, report.cut_short) == (60 + 3 * 18, 0)
    assert report.handler_seconds <= 30.38


def test_a_cold_solver_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("fedcore.flower.turn.is_warm", lambda _: False)
    fitted = ours(order_for(PLANS["coreset"]), FakeTime().clock())
    said = fitted.content["metrics"]
    assert (said["fell-back"], said["coreset-size"]) == (1, 9)


def test_the_answer_holds_both():
    fitted = ours(order_for(PLANS["full"]), None)
    assert sorted(fitted.content) == ["arrays", "metrics"]
    assert fitted.metadata.reply_to_message_id == "m"


def test_several_inputs_are_trained():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, u, v):
            return self.layer(torch.cat([u, v], 1))

    x, y = some_data()
    order = order_for(PLANS["full"])
    sent = message(order, Both().state_dict())
    given = {"u": x[:, :1], "v": x[:, 1:]}, y
    options = {"learning_rate": 0.1, "batch_size": BATCH, "clock": None}
    reply = fit(Both(), given, sent, context(), **options)
    assert read_report(reply.content["metrics"])[0].work == 3 * COUNT
