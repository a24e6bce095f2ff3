"""FADAS against its formulas, by hand."""

import pytest

from fedcore.strategies.fadas import build


def test_two_merges_by_hand(merged, state_of):
    """β1 = β2 = 0.5, η = 1; D = (4 + 2) / 2 = 3, each from the model it began with, then D = 1.

    m = 1.5, v = 4.5 = v̂: w = 1 + 1.5 / √4.5. Then m = 1.25, v = 2.75, but v̂ stays at 4.5.
    """
    strategy = build(beta1=0.5, beta2=0.5, fadas_rate=1.0)
    answers = (0, 5.0, 1.0, {}), (1, 3.0, 1.0, {})
    first = merged(strategy, state_of(1.0), *answers)
    assert first.params["w"].item() == pytest.approx(1 + 1.5 / 4.5**0.5)
    second = merged(strategy, first, (0, 8.0, 7.0, {}))
    moved = second.params["w"].item() - first.params["w"].item()
    assert moved == pytest.approx(1.25 / 4.5**0.5, rel=1e-6)
    assert second.tensors["v/w"].item() == pytest.approx(2.75)


@pytest.mark.parametrize(("age", "rate"), [(0, 0.5), (1, 0.5), (2, 0.5), (4, 0.25), (10, 0.1)])
def test_it_slows_down_when_the_oldest_answer_is_old(merged, state_of, age, rate):
    """η = 0.5, s_c = 1: min(η, 1 / s) beyond it. β1 = β2 = 0: a step of m / √v̂ = 1, times that."""
    strategy = build(beta1=0.0, beta2=0.0, fadas_rate=0.5)
    answers = (0, 3.0, 0.0, {}), (1, 3.0, 0.0, {"base_version": 10 - age})
    after = merged(strategy, state_of(0.0, version=10), *answers)
    assert after.params["w"].item() == pytest.approx(rate)


def test_an_answer_counts_from_the_model_it_began_with(merged, state_of):
    """β = 0 shows the sign alone: 6 from 7 is -1, though 6 is above the current model of 5."""
    strategy = build(beta1=0.0, beta2=0.0, fadas_rate=1.0)
    after = merged(strategy, state_of(5.0, version=1), (0, 6.0, 7.0, {"base_version": 0}))
    assert after.params["w"].item() == pytest.approx(4.0)


def test_staleness_is_no_weight(merged, state_of):
    """D = (2 + 4) / 2 = 3 whatever the ages: m = 0.1 · 3."""
    answers = (0, 2.0, 0.0, {}), (1, 4.0, 0.0, {"base_version": 0})
    after = merged(build(), state_of(0.0, version=8), *answers)
    assert after.tensors["m/w"].item() == pytest.approx(0.3)
