import numpy as np
import pytest
from plain_medoids import rows_of

from fedcore.coreset.medoids.layout import build_lists, layout_of
from fedcore.coreset.medoids.moves import drop, settle, sweep, who_lists
from fedcore.coreset.medoids.problem import Problem
from fedcore.coreset.medoids.sparse import new_state
from fedcore.coreset.metric import Euclidean

COUNT = 200
METRIC = Euclidean(np.random.default_rng(0).normal(size=(COUNT, 3)))
WEIGHTS = np.random.default_rng(1).integers(1, 5, COUNT).astype(np.float32)
LAYOUT = layout_of(Problem(rows_of(METRIC), WEIGHTS, 2, np.arange(2)))


def begin(length, chosen):
    lists = build_lists(LAYOUT, length, None)
    state = new_state(chosen, LAYOUT.weights, LAYOUT.far)
    settle(lists, state)
    exact = who_lists(lists, np.zeros_like(lists.exact), lists.exact)
    return lists, (exact, who_lists(lists, lists.exact, lists.size)), state


def check_against_recomputation(lists, state):
    fresh = new_state(state.chosen.copy(), LAYOUT.weights, LAYOUT.far)
    settle(lists, fresh)
    np.testing.assert_array_equal(state.near_distance, fresh.near_distance)
    np.testing.assert_array_equal(state.second_distance, fresh.second_distance)
    np.testing.assert_allclose(state.removal, fresh.removal, rtol=1e-6, atol=1e-9)
    assert state.removal[state.tree[1]] == state.removal.min()


@pytest.mark.parametrize("length", [8, 20, COUNT])
def test_after_drops_all_is_as_if_computed_afresh(length):
    lists, reverse, state = begin(length, np.ones(COUNT, np.bool_))
    assert drop(lists, reverse, state, 120, np.inf) == 120
    assert state.chosen.sum() == COUNT - 120
    check_against_recomputation(lists, state)


def test_a_drop_takes_the_cheapest():
    lists, reverse, state = begin(COUNT, np.ones(COUNT, np.bool_))
    cost = state.removal.min()
    before = settle(lists, state)
    drop(lists, reverse, state, 1, np.inf)
    assert settle(lists, state) - before == pytest.approx(cost, rel=1e-6)


def test_drops_stop_at_the_limit():
    lists, reverse, state = begin(COUNT, np.ones(COUNT, np.bool_))
    assert drop(lists, reverse, state, COUNT, 0.0) == 0


@pytest.mark.parametrize("length", [12, COUNT])
def test_swaps_lower_the_sum_and_keep_the_books(length):
    lists, reverse, state = begin(length, np.arange(COUNT) % 4 == 0)
    before = settle(lists, state)
    _, quiet, swaps = sweep(lists, reverse, state, 0, 0, 1 << 40, 1e-9 * before)
    assert swaps > 0
    assert quiet >= COUNT
    assert state.chosen.sum() == 50
    check_against_recomputation(lists, state)
    assert settle(lists, state) < before
