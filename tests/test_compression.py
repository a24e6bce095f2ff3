"""Moves in fewer bytes: what is sent and what is kept, by a plain twin, and that it converges."""

import numpy as np
import pytest
import torch

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore import compression
from fedcore.compression import BLOCK, Compression, Packed, upward_share
from fedcore.errors import BadOption


def read(text):
    return compression.read("compress", text)


WAYS = ["topk:0.01", "topk:0.3", "8bit", "topk:0.1+8bit"]


def twin(u, share, eight_bits):
    """C(u), by NumPy and one coordinate at a time."""
    count = int(np.ceil(share * len(u))) if share < 1 else len(u)
    chosen = sorted(sorted(range(len(u)), key=lambda j: -abs(u[j]))[:count])
    sent = np.zeros(len(u), np.float32)
    for start in range(0, count, BLOCK):
        block = chosen[start : start + BLOCK]
        scale = np.float32(max(abs(u[j]) for j in block)) / np.float32(127)
        for j in block:
            whole = np.rint(u[j] / scale) if scale else np.float32(0)
            sent[j] = np.float32(whole) * scale if eight_bits else u[j]
    return sent


@pytest.mark.parametrize("text", WAYS)
@pytest.mark.parametrize("size", [1, 7, 3000])
def test_what_arrives_is_what_a_plain_twin_sends(text, size):
    how = read(text)
    u = np.random.default_rng(size).normal(size=size).astype(np.float32)
    packed = how.pack(torch.from_numpy(u))
    np.testing.assert_allclose(
        how.unpack(packed, size).numpy(), twin(u, how.share, how.eight_bits), rtol=1e-6
    )
    if how.share < 1:
        assert (packed.indices.diff() > 0).all()


@settings(max_examples=200, deadline=None)
@given(
    text=st.sampled_from(WAYS),
    rounds=st.lists(
        st.lists(st.floats(-100, 100, width=32), min_size=50, max_size=50), min_size=1, max_size=6
    ),
)
def test_what_was_sent_and_what_is_kept_are_all_moves(text, rounds):
    """Σ C(u) + e = Σ (w_i - w), to the rounding of float32."""
    how, base, kept = read(text), {"w": torch.zeros(5, 10)}, None
    sent = np.zeros(50)
    for move in rounds:
        packed, kept = how.send({"w": torch.tensor(move).reshape(5, 10)}, base, kept)
        sent += how.receive(packed, base)["w"].reshape(-1).double().numpy()
    moved = np.array(rounds, np.float64).sum(0)
    np.testing.assert_allclose(sent + kept.double().numpy(), moved, atol=1e-3, rtol=0)


def test_a_model_comes_back_in_its_shapes_and_types():
    base = {"w": torch.ones(2, 3), "b": torch.zeros(4, dtype=torch.float64)}
    params = {"w": base["w"] + 1, "b": base["b"] - 2}
    how = Compression()  # all coordinates, as they are
    packed, kept = how.send(params, base, None)
    found = how.receive(packed, base)
    assert all(torch.equal(found[name], value) for name, value in params.items())
    assert {name: v.dtype for name, v in found.items()} == {n: v.dtype for n, v in base.items()}
    assert not kept.any()


@pytest.mark.parametrize("text", WAYS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_arrives_so_and_is_not_kept(text, bad):
    """So that the server refuses this answer, and not all that come after it."""
    how, base = read(text), {"w": torch.zeros(20)}
    _, kept = how.send({"w": torch.randn(20)}, base, None)
    packed, after = how.send({"w": torch.full((20,), bad)}, base, kept)
    assert not torch.isfinite(how.receive(packed, base)["w"]).all()
    assert torch.equal(after, kept)


def test_bytes_by_hand():
    count = 10_000
    assert upward_share("none", 4 * count) == 1.0
    assert upward_share("8bit", 4 * count) == (count + 4 * 10) / (4 * count)
    assert upward_share("topk:0.01", 4 * count) == (100 * 8) / (4 * count)
    assert upward_share("topk:0.01+8bit", 4 * count) == (100 * 5 + 4) / (4 * count)


@pytest.mark.parametrize(
    "text",
    [
        *("", "topk", "topk:", "topk:0", "topk:-1", "topk:2", "topk:nan", "topk:0.1+topk:0.2"),
        *("4bit", "8bit+", "gzip"),
    ],
)
def test_other_words_are_refused(text):
    with pytest.raises(BadOption, match="compress"):
        read(text)


def test_two_forms_are_one_in_both_orders():
    assert read("8bit+topk:0.1") == read("topk:0.1+8bit") == Compression(0.1, True)
    assert read("none") is None
    assert isinstance(read("8bit").pack(torch.zeros(0)), Packed)


def least_squares(feedback, rounds=1500, clients=4, size=100):
    """FedAvg on f_i(w) = |w - c_i|² / 2, where c_i are far apart in coordinates that cancel.

    Gives F(w) - F* = |w - mean c|² / 2 after rounds of one step, smaller from round to round;
    ``feedback`` None: uncompressed.
    """
    draws = torch.Generator().manual_seed(0)
    centre = torch.randn(size, generator=draws)
    apart = 3 * torch.randn(clients, size, generator=draws)
    goals = centre + apart - apart.mean(0)
    how, w, kept = read("topk:0.01"), torch.zeros(size), [None] * clients
    for number in range(rounds):
        answers = []
        for i, goal in enumerate(goals):
            own = w - 0.04 / (1 + number / 100) * (w - goal)
            if feedback is not None:
                packed, rest = how.send({"w": own}, {"w": w}, kept[i])
                kept[i] = rest if feedback else None
                own = how.receive(packed, {"w": w})["w"]
            answers.append(own)
        w = torch.stack(answers).mean(0)
    return float((w - centre).square().sum() / 2)


@pytest.mark.slow
def test_top_k_reaches_what_fedavg_does_with_feedback_alone():
    start = least_squares(None, rounds=0)
    assert least_squares(None) < 1e-4 * start
    assert least_squares(True) < 0.01 * start
    assert least_squares(False) > 0.5 * start
