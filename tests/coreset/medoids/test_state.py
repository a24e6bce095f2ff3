import numpy as np
import pytest
from plain_medoids import distance_matrix, rows_of

from fedcore.coreset.medoids.layout import build_lists, layout_of
from fedcore.coreset.medoids.moves import settle
from fedcore.coreset.medoids.problem import Problem
from fedcore.coreset.medoids.sparse import new_state
from fedcore.coreset.metric import Euclidean

COUNT = 50
METRIC = Euclidean(np.random.default_rng(0).normal(size=(COUNT, 2)))
WEIGHTS = np.random.default_rng(1).integers(1, 5, COUNT).astype(np.float32)
LAYOUT = layout_of(Problem(rows_of(METRIC), WEIGHTS, 2, np.arange(2)))


def settled(length, chosen):
    lists = build_lists(LAYOUT, length, None)
    state = new_state(chosen, LAYOUT.weights, LAYOUT.far)
    return lists, state, settle(lists, state)


@pytest.mark.parametrize("number", [1, 2, 10, 50])
def test_with_full_lists_everything_is_what_the_matrix_says(number):
    chosen = np.arange(COUNT) < number
    _, state, total = settled(COUNT, chosen)
    distances = np.sort(distance_matrix(LAYOUT.rows)[:, chosen], axis=1)
    np.testing.assert_array_equal(state.near_distance, distances[:, 0])
    assert total == pytest.approx((LAYOUT.weights * distances[:, 0]).sum(), rel=1e-6)
    if number > 1:
        np.testing.assert_array_equal(state.second_distance, distances[:, 1])
        costs = np.bincount(
            state.near, LAYOUT.weights * (distances[:, 1] - distances[:, 0]), minlength=COUNT
        )
        np.testing.assert_allclose(state.removal[:COUNT][chosen], costs[chosen], rtol=1e-5)
        assert state.removal[state.tree[1]] == state.removal[:COUNT].min()


def test_whoever_knows_no_medoid_is_far_from_one():
    chosen = np.arange(COUNT) == 0
    _, state, _ = settled(4, chosen)
    lost = state.near < 0
    assert lost.any()
    assert (state.near_distance[lost] == state.far[0]).all()
    assert (state.second_distance == state.far[0]).all()
