"""Few medoids among many points, against the exact path."""

import numpy as np
import pytest
from plain_medoids import distance_matrix, rows_of

from fedcore.coreset.medoids.exact import solve_exact
from fedcore.coreset.medoids.problem import Problem
from fedcore.coreset.medoids.sampled import searched
from fedcore.coreset.medoids.solve import SMALL_FEW, solve
from fedcore.coreset.medoids.sparse import best_in_time
from fedcore.coreset.metric import Euclidean


def problem(metric, k, labels=None, warm=None):
    count = len(metric)
    start = np.arange(k) if warm is None else warm
    return Problem(rows_of(metric), np.ones(count, np.float32), k, start, warm is not None, labels)


def solve_sampled(given, over=None):
    return best_in_time(given, over, "sampled", searched)


def objective(rows, answer):
    count = len(answer.assignment)
    return distance_matrix(rows)[np.arange(count), answer.indices[answer.assignment]].sum(
        dtype=np.float64
    )


@pytest.mark.parametrize("k", [3, 12, 40])
def test_never_one_percent_above_the_exact_path_on_any_family(family, k):
    metric = family(2000)
    given = problem(metric, k)
    few, exact = solve_sampled(given), solve_exact(given)
    assert len(np.unique(few.indices)) == k
    assert few.finished
    assert objective(given.rows, few) <= 1.01 * objective(given.rows, exact) + 1e-12


def test_everybody_is_served_by_the_nearest_medoid(family):
    given = problem(family(1500), 20)
    answer = solve_sampled(given)
    to_medoids = distance_matrix(given.rows)[:, answer.indices]
    np.testing.assert_array_equal(
        to_medoids[np.arange(len(to_medoids)), answer.assignment], to_medoids.min(axis=1)
    )


def test_large_problems_with_few_medoids_come_here():
    points = np.random.default_rng(0).normal(size=(SMALL_FEW + 1, 2)).astype(np.float32)
    answer = solve(points, 40)
    assert (answer.path, answer.certified) == ("sampled", 0.0)
    assert solve(points[:-1], 40).path == "exact"
    assert answer.objective <= 1.01 * solve(points, 40, path="exact").objective


@pytest.mark.parametrize("k", [2, 5, 8])
def test_very_few_medoids_have_no_better_swap_among_all_points(k):
    """Of a mixture of more parts than medoids, where candidates alone end a per cent above."""
    draw = np.random.default_rng(3)
    centres = 6 * draw.normal(size=(12, 6))
    points = centres[draw.integers(12, size=SMALL_FEW + 900)] + draw.normal(
        size=(SMALL_FEW + 900, 6)
    )
    answer = solve(points, k)
    assert (answer.path, answer.certified) == ("sampled", 1.0)
    assert solve(points, k, start=answer.indices, path="exact").swaps == 0
    assert answer.objective <= 1.01 * solve(points, k, path="exact").objective


def test_the_best_single_medoid_is_found_without_trying_all(family):
    given = problem(family(2000), 1)
    assert solve_sampled(given).indices.tolist() == solve_exact(given).indices.tolist()
    wide = np.random.default_rng(0).normal(size=(12_000, 10)).astype(np.float32)
    answer = solve(wide, 1)
    assert answer.certified == 0.0  # not all pairs: they grow with the square of n
    assert answer.indices.tolist() == solve(wide, 1, path="exact").indices.tolist()


def test_a_permutation_changes_nothing():
    points = np.random.default_rng(1).normal(size=(4500, 3)).astype(np.float32)
    order = np.random.default_rng(2).permutation(4500)
    one, other = solve(points, 40), solve(points[order], 40)
    assert one.objective == pytest.approx(other.objective, rel=1e-12)
    assert sorted(order[other.indices]) == one.indices.tolist()


def wide(count):
    """Vectors of 60 coordinates, most of them small, as in Synthetic."""
    draw = np.random.default_rng(5)
    centres = 2 * draw.normal(size=(30, 60))
    points = centres[draw.integers(30, size=count)] + draw.normal(size=(count, 60))
    return points * np.arange(1, 61) ** -0.6


def test_wide_vectors():
    points = wide(SMALL_FEW + 500)
    one, other = solve(points, 45), solve(points[::-1].copy(), 45)
    assert sorted(SMALL_FEW + 499 - other.indices) == one.indices.tolist()
    assert one.objective <= 1.01 * solve(points, 45, path="exact").objective


def test_weights_count():
    points = np.random.default_rng(3).normal(size=(1000, 2)).astype(np.float32)
    given = problem(Euclidean(points), 10)
    heavy = given.weights.copy()
    heavy[:5] = 1e6
    given = Problem(given.rows, heavy, 10, np.arange(500, 510))
    assert set(range(5)) <= set(solve_sampled(given).indices.tolist())


def test_labels_are_kept_apart(late):
    labels = np.arange(1800) % 3
    answer = solve_sampled(problem(late(1800), 12, labels))
    assert np.array_equal(labels[answer.indices][answer.assignment], labels)


def test_a_good_start_is_never_made_worse(late):
    metric = late(2000)
    first = solve_sampled(problem(metric, 20))
    again = solve_sampled(problem(metric, 20, warm=first.indices))
    rows = rows_of(metric)
    assert objective(rows, again) <= objective(rows, first) * (1 + 1e-6)


@pytest.mark.parametrize("looks", [0, 1, 30, 100])
def test_whenever_the_time_is_up_everybody_has_the_nearest_medoid(late, looks):
    clock = iter([False] * looks)
    given = problem(late(2000), 30)
    answer = solve_sampled(given, lambda: next(clock, True))
    assert len(np.unique(answer.indices)) == 30
    assert not answer.finished
    to_medoids = distance_matrix(given.rows)[:, answer.indices]
    np.testing.assert_array_equal(
        to_medoids[np.arange(2000), answer.assignment], to_medoids.min(axis=1)
    )
