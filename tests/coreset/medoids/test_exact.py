"""FasterPAM against exhaustive search, plain PAM and the public implementation."""

import numpy as np
import pytest
from plain_medoids import distance_matrix, exhaustive, objective, pam, rows_of

from fedcore.coreset.medoids.exact import solve_exact, source_of, sweep
from fedcore.coreset.medoids.geometry import clusters_of, fill
from fedcore.coreset.medoids.problem import Problem
from fedcore.coreset.metric import Euclidean


def problem(points, start, weights=None, labels=None):
    weights = np.ones(len(points), np.float32) if weights is None else weights
    rows = rows_of(Euclidean(points))
    return Problem(rows, weights, len(start), np.asarray(start), labels=labels)


def distances_of(points):
    return np.linalg.norm(points[:, None] - points[None], axis=2)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.8])
def test_no_worse_than_the_public_solver_from_the_same_start(seed, share):
    kmedoids = pytest.importorskip("kmedoids")
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(200, 5)).astype(np.float32)
    start = rng.permutation(200)[: int(200 * share)]
    distances = distances_of(points).astype(np.float32)
    theirs = kmedoids.fasterpam(distances, start.astype(np.uint64), n_cpu=1)
    ours = solve_exact(problem(points, start))
    assert objective(distances, ours.indices) <= objective(distances, theirs.medoids) * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_plain_pam_finds_nothing_left_to_swap(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(30, 2)).astype(np.float32)
    medoids = solve_exact(problem(points, rng.permutation(30)[:6])).indices
    _again, value = pam(distances_of(points), medoids)
    assert value == pytest.approx(objective(distances_of(points), medoids), rel=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_best_of_all_starts_is_the_best_of_all_sets(k):
    points = np.random.default_rng(k).normal(size=(8, 2)).astype(np.float32)
    starts = (np.random.default_rng(seed).permutation(8)[:k] for seed in range(20))
    found = min(
        objective(distances_of(points), solve_exact(problem(points, s)).indices) for s in starts
    )
    assert found == pytest.approx(exhaustive(distances_of(points), k)[1], rel=1e-6)


def test_a_weight_counts_like_that_many_equal_points():
    rng = np.random.default_rng(0)
    points, weights = rng.normal(size=(40, 3)).astype(np.float32), rng.integers(1, 5, size=40)
    medoids = solve_exact(
        problem(points, rng.permutation(40)[:8], weights.astype(np.float32))
    ).indices
    to_medoids = distances_of(points)[:, medoids].min(axis=1)
    origin = np.repeat(np.arange(40), weights)
    start = np.array([np.flatnonzero(origin == m)[0] for m in medoids])
    _, plain = pam(distances_of(points[origin]), start)
    assert (weights * to_medoids).sum() == pytest.approx(plain, rel=1e-5)


def test_a_local_optimum_is_left_alone():
    points = np.random.default_rng(0).normal(size=(60, 3))
    first = solve_exact(problem(points, np.arange(10)))
    again = solve_exact(problem(points, first.indices))
    assert again.swaps == 0
    assert again.indices.tolist() == first.indices.tolist()


@pytest.mark.parametrize("k", [1, 2, 5, 70])
def test_rows_that_are_computed_lead_where_a_matrix_leads(family, k):
    metric = family(200)
    if len(np.unique(rows_of(metric).left, axis=0)) < len(metric):
        pytest.skip("equal points are merged before a problem is stated")
    weights = np.random.default_rng(0).integers(1, 4, len(metric)).astype(np.float32)
    given = Problem(rows_of(metric), weights, k, np.arange(k))
    stored, computed = solve_exact(given), solve_exact(given, over=lambda: False)
    assert computed.indices.tolist() == stored.indices.tolist()
    assert computed.swaps == stored.swaps
    assert computed.assignment.tolist() == stored.assignment.tolist()


@pytest.mark.parametrize("over", [None, lambda: False])
def test_labels_are_kept_apart(late, over):
    labels = np.arange(300) % 3
    given = Problem(rows_of(late(300)), np.ones(300, np.float32), 9, np.arange(9), labels=labels)
    answer = solve_exact(given, over)
    assert np.array_equal(labels[answer.indices][answer.assignment], labels)


def test_other_labels_are_further_than_everything_else_together():
    labels = np.arange(130) % 2
    points = np.random.default_rng(0).normal(size=(130, 3))
    distances = distance_matrix(rows_of(Euclidean(points)), labels)
    own = labels[:, None] == labels[None]
    assert distances[~own].min() > distances[own].max() * 130


def test_every_point_is_given_its_nearest_medoid():
    points = np.random.default_rng(0).normal(size=(130, 3))
    answer = solve_exact(problem(points, np.arange(20)))
    chosen = distance_matrix(rows_of(Euclidean(points)))[:, answer.indices]
    assert np.array_equal(answer.assignment, chosen.argmin(axis=1))
    assert answer.finished
    assert answer.certified == 1.0


def test_the_search_can_be_cut_into_pieces():
    points = np.random.default_rng(0).normal(size=(60, 3))
    given = problem(points, np.arange(10))
    source = source_of(given.rows, None, given.start, stored=True)
    fill(source)
    state = clusters_of(source, given.start)
    first, quiet = 0, 0
    while quiet < 60:
        first, quiet, _ = sweep(source, state, given.weights, first, quiet, 7)
    assert np.sort(state.medoids).tolist() == solve_exact(given).indices.tolist()


@pytest.mark.parametrize("k", [1, 4, 20])
def test_no_time_leaves_the_start_with_everybodys_nearest(late, k):
    rows = rows_of(late(300))
    answer = solve_exact(Problem(rows, np.ones(300, np.float32), k, np.arange(k)), lambda: True)
    assert not answer.finished
    assert answer.indices.tolist() == list(range(k))
    assert np.array_equal(
        answer.assignment, distance_matrix(rows)[:, answer.indices].argmin(axis=1)
    )
