import numpy as np
import pytest

from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.dense import distance_matrix, solve_exact
from fedcore.coreset.medoids.geometry import rows_of
from fedcore.coreset.medoids.reference import exhaustive
from fedcore.coreset.medoids.solution import Problem
from fedcore.coreset.metric import Euclidean

POINTS = np.random.default_rng(0).normal(size=(130, 3)).astype(np.float32)


def problem(count, k, labels=None, threads=1):
    rows = rows_of(Euclidean(POINTS[:count]))
    ones = np.ones(count, np.float32)
    return Problem(rows, ones, k, np.arange(k), False, labels, threads)


def test_threads_change_nothing():
    rows = rows_of(Euclidean(POINTS))
    assert np.array_equal(distance_matrix(rows), distance_matrix(rows, threads=2))


def test_other_labels_are_further_than_everything_else_together():
    labels = np.arange(130) % 2
    distances = distance_matrix(rows_of(Euclidean(POINTS)), labels)
    own = labels[:, None] == labels[None]
    assert distances[~own].min() > distances[own].max() * 130


def test_one_medoid_is_the_best_of_all():
    want, _ = exhaustive(distance_matrix(rows_of(Euclidean(POINTS))), 1)
    assert solve_exact(problem(130, 1), Deadline()).medoids.tolist() == want.tolist()


@pytest.mark.parametrize("threads", [1, 2])
def test_every_point_is_given_its_nearest_medoid(threads):
    solution = solve_exact(problem(130, 20, threads=threads), Deadline())
    distances = distance_matrix(rows_of(Euclidean(POINTS)))
    chosen = distances[:, solution.medoids]
    assert np.array_equal(solution.nearest, chosen.argmin(axis=1))
    assert solution.finished
    assert solution.certified == 1.0


def test_no_time_leaves_the_start_as_it_is():
    solution = solve_exact(problem(130, 20), Deadline.after(0.0))
    assert not solution.finished
    assert solution.medoids.tolist() == list(range(20))
