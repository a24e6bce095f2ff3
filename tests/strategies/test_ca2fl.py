"""CA2FL against its formulas, by hand."""

import pytest

from fedcore.errors import BadOption
from fedcore.strategies.ca2fl import build

FOUR = {"num_clients": 4}


def test_two_buffers_by_hand(merged, state_of):
    """N = 4, B = 2. First Δ = (4, 2), no h yet: w = 0 + (4 + 2) / 2 = 3; h = 6 / 4 = 1.5.

    Then client 0 brings Δ = 1 (h_0 = 4) and client 2, from an older model, Δ = 5 - 2 = 3 (new):
    w = 3 + 1.5 + ((1 - 4) + 3) / 2 = 4.5; h = (1 + 2 + 3 + 0) / 4 = 1.5. Without calibration the
    step would be 2, with h taken away twice 0.
    """
    strategy = build(options=FOUR)
    first = merged(strategy, state_of(0.0), (0, 4.0, 0.0, {}), (1, 2.0, 0.0, {}))
    assert first.params["w"].item() == pytest.approx(3.0)
    assert first.tensors["w"].item() == pytest.approx(1.5)
    second = merged(strategy, first, (0, 4.0, 3.0, {}), (2, 5.0, 2.0, {}))
    assert second.params["w"].item() == pytest.approx(4.5)
    assert second.tensors["w"].item() == pytest.approx(1.5)
    assert {c: own["w"].item() for c, own in second.clients.items()} == {0: 1.0, 1: 2.0, 2: 3.0}


def test_a_client_twice_in_a_buffer_brings_what_changed_since_its_first(merged, state_of):
    """b = 4 + (6 - 4) = 6, over 2: w = 3; h = 6 / 4."""
    after = merged(build(options=FOUR), state_of(0.0), (0, 4.0, 0.0, {}), (0, 6.0, 0.0, {}))
    assert after.params["w"].item() == pytest.approx(3.0)
    assert after.tensors["w"].item() == pytest.approx(1.5)


def test_the_servers_step_scales_both_parts(merged, state_of):
    """h = 2, Δ = 6 from a client without h: 0.5 (2 + 6) = 4."""
    state = state_of(0.0, tensors={"w": 2.0})
    after = merged(build(global_rate=0.5, options=FOUR), state, (0, 6.0, 0.0, {}))
    assert after.params["w"].item() == pytest.approx(4.0)


def test_more_memory_than_there_is_is_refused():
    with pytest.raises(BadOption, match="ca2fl keeps a vector of the model's size"):
        build(options={"num_clients": 100_000, "model_bytes": 40_000_000})
