"""Few medoids among many points, against the exact path."""

import numpy as np
import pytest

from plain_medoids import rows_of

from fedcore.coreset.medoids import few as few_module
from fedcore.coreset.medoids.dense import distance_matrix, solve_exact
from fedcore.coreset.medoids.few import solve_few
from fedcore.coreset.medoids.problem import Problem
from fedcore.coreset.medoids.solve import MANY, solve
from fedcore.coreset.metric import Euclidean


def problem(metric, k, labels=None, warm=None):
    count = len(metric)
    start = np.arange(k) if warm is None else warm
    return Problem(
        rows_of(metric), np.ones(count, np.float32), k, start, warm is not None, labels, 1
    )


def objective(rows, answer):
    count = len(answer.nearest)
    return distance_matrix(rows)[np.arange(count), answer.medoids[answer.nearest]].sum(
        dtype=np.float64
    )


@pytest.mark.parametrize("k", [3, 12, 40])
def test_never_one_percent_above_the_exact_path_on_any_family(family, k):
    metric = family(2000)
    given = problem(metric, k)
    few, exact = solve_few(given, None), solve_exact(given, None)
    assert len(np.unique(few.medoids)) == k
    assert few.finished
    assert objective(given.rows, few) <= 1.01 * objective(given.rows, exact) + 1e-12


def test_everybody_is_served_by_the_nearest_medoid(family):
    given = problem(family(1500), 20)
    answer = solve_few(given, None)
    to_medoids = distance_matrix(given.rows)[:, answer.medoids]
    np.testing.assert_array_equal(
        to_medoids[np.arange(len(to_medoids)), answer.nearest], to_medoids.min(axis=1)
    )


def test_large_problems_with_few_medoids_come_here():
    points = np.random.default_rng(0).normal(size=(MANY + 1, 2)).astype(np.float32)
    answer = solve(points, 40)
    assert (answer.path, answer.certified) == ("sparse", 0.0)
    assert solve(points[:-1], 40).path == "exact"
    assert answer.objective <= 1.01 * solve(points, 40, path="exact").objective


@pytest.mark.parametrize("k", [2, 5, 8])
def test_very_few_medoids_have_no_better_swap_among_all_points(k):
    """Of a mixture of more parts than medoids, where candidates alone end a per cent above."""
    draw = np.random.default_rng(3)
    centres = 6 * draw.normal(size=(12, 6))
    points = centres[draw.integers(12, size=MANY + 900)] + draw.normal(size=(MANY + 900, 6))
    answer = solve(points, k)
    assert (answer.path, answer.certified) == ("sparse", 1.0)
    assert solve(points, k, start=answer.indices, path="exact").swaps == 0
    assert answer.objective <= 1.01 * solve(points, k, path="exact").objective


def test_a_permutation_and_threads_change_nothing():
    points = np.random.default_rng(1).normal(size=(4500, 3)).astype(np.float32)
    order = np.random.default_rng(2).permutation(4500)
    one, other = solve(points, 40), solve(points[order], 40, threads=2)
    assert one.objective == pytest.approx(other.objective, rel=1e-12)
    assert sorted(order[other.indices]) == one.indices.tolist()


def wide(count):
    """Vectors of 60 coordinates, most of them small, as in Synthetic."""
    draw = np.random.default_rng(5)
    centres = 2 * draw.normal(size=(30, 60))
    points = centres[draw.integers(30, size=count)] + draw.normal(size=(count, 60))
    return points * np.arange(1, 61) ** -0.6


def test_wide_vectors_whose_first_round_sees_some_points_only(monkeypatch):
    points = wide(MANY + 500)
    one, other = solve(points, 45), solve(points[::-1].copy(), 45, threads=2)
    assert sorted(MANY + 499 - other.indices) == one.indices.tolist()
    assert one.objective <= 1.01 * solve(points, 45, path="exact").objective
    monkeypatch.setattr(few_module, "LONG", 61)
    assert one.objective <= 1.005 * solve(points, 45).objective


def test_weights_count_where_some_points_are_seen_first():
    given = problem(Euclidean(wide(4000)), 40)
    heavy = given.weights.copy()
    heavy[:5] = 1e6
    given = Problem(given.rows, heavy, 40, np.arange(500, 540))
    assert set(range(5)) <= set(solve_few(given, None).medoids.tolist())


def test_weights_count():
    points = np.random.default_rng(3).normal(size=(1000, 2)).astype(np.float32)
    given = problem(Euclidean(points), 10)
    heavy = given.weights.copy()
    heavy[:5] = 1e6
    given = Problem(given.rows, heavy, 10, np.arange(500, 510))
    assert set(range(5)) <= set(solve_few(given, None).medoids.tolist())


def test_labels_are_kept_apart(late):
    labels = np.arange(1800) % 3
    answer = solve_few(problem(late(1800), 12, labels), None)
    assert np.array_equal(labels[answer.medoids][answer.nearest], labels)


def test_a_good_start_is_never_made_worse(late):
    metric = late(2000)
    first = solve_few(problem(metric, 20), None)
    again = solve_few(problem(metric, 20, warm=first.medoids), None)
    rows = rows_of(metric)
    assert objective(rows, again) <= objective(rows, first) * (1 + 1e-6)


@pytest.mark.parametrize("seconds", [0.0, 1e-3, 0.02, 0.05])
def test_any_budget_gives_a_complete_answer(late, seconds):
    answer = solve_few(problem(late(3000), 50), Deadline.after(seconds))
    assert len(np.unique(answer.medoids)) == 50
    assert answer.nearest.shape == (3000,)
    assert set(np.unique(answer.nearest)) <= set(range(50))
