import numpy as np
import pytest

from fedcore.errors import BadOption
from fedcore.sim.cohort import draw_cohort

SIZES = {0: 10, 1: 30, 2: 60}


def test_draws_follow_the_share_of_samples_and_repeat():
    """p = 0.1, 0.3, 0.6: over 4,000 rounds of 5, standard error below 0.004."""
    counts = np.zeros(3)
    for number in range(4000):
        for client, copies in draw_cohort("proportional", SIZES, 5, number, seed=0).items():
            counts[client] += copies
    assert counts.sum() == 4000 * 5
    assert counts / counts.sum() == pytest.approx([0.1, 0.3, 0.6], abs=0.015)


def test_uniform_draws_are_different_clients():
    sizes = dict.fromkeys(range(20), 1) | {0: 10_000}
    for number in range(50):
        cohort = draw_cohort("uniform", sizes, 8, number, seed=0)
        assert len(cohort) == 8
        assert set(cohort.values()) == {1}


def test_uniform_draws_take_everybody_when_there_are_too_few():
    assert set(draw_cohort("uniform", SIZES, 10, 1, seed=0)) == {0, 1, 2}


def test_by_round_the_draw_is_that_of_numpys_legacy_generator():
    """RandomState(1).choice(30, 10, replace=False), a published sequence of NumPy."""
    expected = np.random.RandomState(1).permutation(30)[:10].tolist()
    cohort = draw_cohort("uniform-by-round", dict.fromkeys(range(30), 1), 10, 1, seed=77)
    assert list(cohort) == expected


@pytest.mark.parametrize("selection", ["proportional", "uniform"])
def test_rounds_and_seeds_differ(selection):
    sizes = dict.fromkeys(range(100), 1)
    draws = [
        tuple(draw_cohort(selection, sizes, 10, number, seed))
        for number, seed in ((1, 0), (2, 0), (1, 1))
    ]
    assert len(set(draws)) == 3


def test_an_unknown_selection_is_refused():
    with pytest.raises(BadOption, match="selection must be one of"):
        draw_cohort("fastest", SIZES, 2, 1, 0)
