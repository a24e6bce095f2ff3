import numpy as np
import pytest

from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.dense import solve_exact
from fedcore.coreset.medoids.geometry import rows_of
from fedcore.coreset.medoids.solution import Problem
from fedcore.coreset.medoids.stream import solve_streamed


def problem(metric, k, labels=None):
    weights = np.random.default_rng(0).integers(1, 4, len(metric)).astype(np.float32)
    start = np.arange(k) if labels is None else np.unique(labels, return_index=True)[1]
    return Problem(rows_of(metric), weights, len(start), start, False, labels, 1)


@pytest.mark.parametrize("k", [1, 2, 5, 70])
def test_the_answer_is_that_of_the_distance_matrix(family, k):
    metric = family(200)
    if len(np.unique(rows_of(metric).left, axis=0)) < len(metric):
        pytest.skip("equal points are merged before a problem is stated")
    streamed = solve_streamed(problem(metric, k), Deadline())
    dense = solve_exact(problem(metric, k), Deadline())
    assert streamed.medoids.tolist() == dense.medoids.tolist()
    assert streamed.swaps == dense.swaps
    assert streamed.nearest.tolist() == dense.nearest.tolist()


def test_labels_are_kept_apart(late):
    labels = np.arange(300) % 3
    answer = solve_streamed(problem(late(300), 3, labels), Deadline())
    assert np.array_equal(labels[answer.medoids][answer.nearest], labels)


@pytest.mark.parametrize("k", [1, 4])
def test_no_time_still_gives_an_answer(late, k):
    answer = solve_streamed(problem(late(300), k), Deadline.after(0.0))
    assert not answer.finished
    assert len(answer.medoids) == k
