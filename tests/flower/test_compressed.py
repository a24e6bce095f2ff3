"""Answers in fewer bytes: what a node sends and keeps, and what the server takes of it."""

import math

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("flwr")
pytest.importorskip("hypothesis")

from flwr.app import Array, ArrayRecord, RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.flower.client_side import FakeTime, context, message, order_for
from tests.flower.grid import InProcessGrid, Time, answer
from tests.flower.test_strategy import run

from fedcore import compression
from fedcore.errors import BadOption
from fedcore.flower import FedCore, fit
from fedcore.flower.wire import (
    PACKED,
    UNSENT,
    BadMessage,
    Order,
    order_text,
    pack_model,
    read_model,
    read_order,
)
from fedcore.types import LocalPlan, Phase, Way

WAYS = ["topk:0.3", "8bit", "topk:0.3+8bit"]
BASE = {"w": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(7), "b": torch.zeros(4)}


def read(text):
    return compression.read("compress", text)


def packed(text, state=None, base=BASE):
    draws = torch.Generator().manual_seed(1)
    moved = {n: v + torch.randn(v.shape, generator=draws).to(v) for n, v in base.items()}
    state = RecordDict() if state is None else state
    return moved, RecordDict({"a": ArrayRecord(pack_model(read(text), moved, base, state))}), state


@pytest.mark.parametrize("text", WAYS)
def test_what_is_read_and_what_is_kept_are_the_move(text):
    moved, content, state = packed(text)
    params, norm = read_model(content, BASE, math.inf, read(text))
    assert list(params) == list(BASE)
    assert torch.equal(params["n"], BASE["n"])  # counters stay the server's
    kept = torch.from_numpy(state[UNSENT]["u"].numpy()).split([6, 4])
    for name, rest in zip(("w", "b"), kept, strict=True):
        arrived = params[name] + rest.reshape(params[name].shape)
        torch.testing.assert_close(arrived, moved[name])
    length = sum(float((params[n] - BASE[n]).square().sum()) for n in ("w", "b")) ** 0.5
    assert norm == pytest.approx(length)


def test_what_was_kept_is_sent_later():
    state, sent = RecordDict(), torch.zeros(4)
    for _ in range(4):  # one of four coordinates a round
        moved = {"b": torch.tensor([4.0, 3.0, 2.0, 1.0])}
        content = ArrayRecord(pack_model(read("topk:0.25"), moved, {"b": torch.zeros(4)}, state))
        params, _ = read_model(
            RecordDict({"a": content}), {"b": torch.zeros(4)}, math.inf, read("topk:0.25")
        )
        sent += params["b"]
    kept = torch.from_numpy(state[UNSENT]["u"].numpy())
    assert torch.equal(sent + kept, torch.tensor([16.0, 12.0, 8.0, 4.0]))
    assert (sent > 0).sum() > 1


def changed(content, **arrays):
    record = {name: content["a"][name] for name in content["a"]}
    named = {f"fedcore-{name}": value for name, value in arrays.items()}
    return RecordDict({"a": ArrayRecord({**record, **named})})


TOP = "topk:0.3"  # three of ten coordinates
BAD = {
    "an index below 0": {"indices": Array(np.array([-1, 2, 3], np.int32))},
    "an index too large": {"indices": Array(np.array([1, 2, 10], np.int32))},
    "an index twice": {"indices": Array(np.array([1, 2, 2], np.int32))},
    "indices that fall": {"indices": Array(np.array([3, 2, 1], np.int32))},
    "indices that overflow": {"indices": Array(np.array([0, 2**31 - 1, -(2**31)], np.int32))},
    "wider indices": {"indices": Array(np.array([1, 2, 3], np.int64))},
    "too many": {"indices": Array(np.arange(4, dtype=np.int32))},
    "too few values": {"values": Array(np.zeros(2, np.float32))},
    "values of another type": {"values": Array(np.zeros(3, np.float64))},
    "NaN": {"values": Array(np.array([1, np.nan, 2], np.float32))},
    "infinity": {"values": Array(np.array([1, np.inf, 2], np.float32))},
    "scales that nobody asked for": {"scales": Array(np.ones(1, np.float32))},
    "more": {"more": Array(np.ones(1, np.float32))},
}


@pytest.mark.parametrize("arrays", BAD.values(), ids=BAD.keys())
def test_what_cannot_be_is_refused(arrays):
    _, content, _ = packed(TOP)
    read_model(content, BASE, math.inf, read(TOP))
    with pytest.raises(BadMessage):
        read_model(changed(content, **arrays), BASE, math.inf, read(TOP))


@pytest.mark.parametrize("scale", [np.nan, np.inf, 3e38])
def test_scales_that_make_no_number_are_refused(scale):
    _, content, _ = packed("8bit")
    scales = Array(np.full(1, scale, np.float32))
    with pytest.raises(BadMessage):
        read_model(changed(content, scales=scales), BASE, math.inf, read("8bit"))


def test_nobody_is_sent_what_was_not_asked_for():
    _, content, _ = packed(TOP)
    for how in (None, read("8bit")):
        with pytest.raises(BadMessage):
            read_model(content, BASE, math.inf, how)
    whole = RecordDict({"a": ArrayRecord(BASE)})  # of a handler that answers by itself
    assert read_model(whole, BASE, math.inf, read(TOP))[1] == 0


def test_a_move_ten_times_as_long_as_usual_is_refused():
    _, content, _ = packed(TOP)
    _, norm = read_model(content, BASE, math.inf, read(TOP))
    with pytest.raises(BadMessage, match="norm"):
        read_model(content, BASE, norm * (1 - 1e-6), read(TOP))


places = st.integers(0, 200)


@settings(max_examples=500, deadline=None)
@given(
    name=st.sampled_from(PACKED),
    change=st.lists(st.tuples(places, st.integers(0, 255)), max_size=5),
)
def test_fuzzed_answers_are_refused_or_finite_and_sparse(name, change):
    _, content, _ = packed("topk:0.3+8bit")
    data = bytearray(content["a"][name].data)
    for place, value in change:
        data[place % len(data)] = value
    old = content["a"][name]
    forged = changed(
        content,
        **{name.removeprefix("fedcore-"): Array(old.dtype, old.shape, old.stype, bytes(data))},
    )
    try:
        params, _ = read_model(forged, BASE, 1e6, read("topk:0.3+8bit"))
    except BadMessage:
        return
    moves = torch.cat([(params[n] - BASE[n]).reshape(-1) for n in ("w", "b")])
    assert bool(torch.isfinite(moves).all())
    assert (moves != 0).sum() <= 3


def test_an_order_says_how():
    order = Order(order_for(LocalPlan((Phase(1),), Way.FULL)).assignment, 20.0, 0.0, 3)
    assert read_order(order_text(order)).compress == "none"
    with pytest.raises(BadMessage, match="compress"):
        read_order(order_text(order).replace('"none"', '"gzip"'))
    with pytest.raises(BadOption, match="compress"):
        FedCore(compress="gzip")


def test_rounds_of_compressed_answers_reach_the_mean():
    """Nodes at 1 and 3 that send one coordinate of three a round, and keep the rest."""
    start, states = (
        {"w": torch.zeros(1, 2), "b": torch.zeros(1)},
        {7: RecordDict(), 8: RecordDict()},
    )
    bytes_sent = []

    def node(goal, state):
        def handler(order, arrays, message):
            base = arrays.to_torch_state_dict()
            moved = {n: v + 0.05 * (goal - v) for n, v in base.items()}
            sent = ArrayRecord(pack_model(read(order.compress), moved, base, state))
            bytes_sent.append(sum(len(array.data) for array in sent.values()))
            return 2.0, answer(order, sent)

        return handler

    nodes = {n: node(goal, states[n]) for n, goal in ((7, 1.0), (8, 3.0))}
    grid = InProcessGrid(Time(), nodes)
    result, _ = run(nodes, 200, grid=grid, start=start, compress="topk:0.3")
    found = torch.cat([torch.from_numpy(a.numpy()).reshape(-1) for a in result.arrays.values()])
    assert bytes_sent[0] == 128 * 3 + 4 + 4  # three headers, an index and a value
    torch.testing.assert_close(found, torch.full((3,), 2.0), atol=0.15, rtol=0)


@pytest.mark.parametrize("text", WAYS)
def test_fit_compresses_as_it_is_told_and_keeps_the_rest_at_the_node(text):
    torch.manual_seed(0)
    model, own = nn.Linear(4, 3), context()
    x, y = torch.randn(24, 4), torch.arange(24) % 3
    told = order_for(LocalPlan((Phase(2),), Way.FULL)).assignment
    base = {n: v.clone() for n, v in model.state_dict().items()}
    replies = {}
    for way in ("none", text):
        msg = message(Order(told, 1000.0, 0.0, 12, compress=way), base)
        replies[way] = fit(
            model, (x, y), msg, own, learning_rate=0.1, batch_size=8, clock=FakeTime().clock()
        )
    assert list(replies["none"].content["arrays"]) == list(base)
    assert set(replies[text].content["arrays"]) == set(PACKED)
    params, _ = read_model(replies[text].content, base, math.inf, read(text))
    kept = torch.from_numpy(own.state[UNSENT]["u"].numpy()).split([12, 3])
    whole = replies["none"].content["arrays"].to_torch_state_dict()
    for (name, value), rest in zip(params.items(), kept, strict=True):
        torch.testing.assert_close(value + rest.reshape(value.shape), whole[name])
