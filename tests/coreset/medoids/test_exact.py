"""FasterPAM against exhaustive search, plain PAM and the public implementation."""

import pytest

pytest.importorskip("kmedoids")


import kmedoids
import numpy as np

from fedcore.coreset.medoids.exact import assign_all, clusters_of, sweep
from fedcore.coreset.medoids.reference import exhaustive, objective, pam


def distances_of(points):
    return np.linalg.norm(points[:, None] - points[None], axis=2).astype(np.float32)


def fasterpam(distances, start, weights=None):
    weights = np.ones(len(distances), np.float32) if weights is None else weights
    state = clusters_of(len(distances), start)
    assign_all(distances, state, weights)
    _first, quiet, swaps = sweep(distances, state, weights, 0, 0, 1 << 40)
    assert quiet >= len(distances)
    return np.sort(state.medoids), swaps


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.8])
def test_no_worse_than_the_public_solver_from_the_same_start(seed, share):
    rng = np.random.default_rng(seed)
    distances = distances_of(rng.normal(size=(200, 5)))
    start = rng.permutation(200)[: int(200 * share)]
    theirs = kmedoids.fasterpam(distances, start.astype(np.uint64), n_cpu=1)
    medoids, _ = fasterpam(distances, start)
    assert objective(distances, medoids) <= objective(distances, theirs.medoids) * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_plain_pam_finds_nothing_left_to_swap(seed):
    rng = np.random.default_rng(seed)
    distances = distances_of(rng.normal(size=(30, 2)))
    medoids, _ = fasterpam(distances, rng.permutation(30)[:6])
    _again, value = pam(distances, medoids)
    assert value == pytest.approx(objective(distances, medoids), rel=1e-6)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_best_of_all_starts_is_the_best_of_all_sets(k):
    distances = distances_of(np.random.default_rng(k).normal(size=(8, 2)))
    starts = (np.random.default_rng(seed).permutation(8)[:k] for seed in range(20))
    found = min(objective(distances, fasterpam(distances, start)[0]) for start in starts)
    assert found == pytest.approx(exhaustive(distances, k)[1], rel=1e-6)


def test_a_weight_counts_like_that_many_equal_points():
    rng = np.random.default_rng(0)
    points, weights = rng.normal(size=(40, 3)), rng.integers(1, 5, size=40)
    repeated = np.repeat(points, weights, axis=0)
    start = rng.permutation(40)[:8]
    medoids, _ = fasterpam(distances_of(points), start, weights.astype(np.float32))
    to_medoids = distances_of(points)[:, medoids].min(axis=1)
    origin = np.repeat(np.arange(40), weights)
    _, plain = pam(
        distances_of(repeated), np.array([np.flatnonzero(origin == m)[0] for m in medoids])
    )
    assert (weights * to_medoids).sum() == pytest.approx(plain, rel=1e-5)


def test_a_local_optimum_is_left_alone():
    distances = distances_of(np.random.default_rng(0).normal(size=(60, 3)))
    medoids, _ = fasterpam(distances, np.arange(10))
    again, swaps = fasterpam(distances, medoids)
    assert swaps == 0
    assert again.tolist() == medoids.tolist()


def test_the_search_can_be_cut_into_pieces():
    distances = distances_of(np.random.default_rng(0).normal(size=(60, 3)))
    weights = np.ones(60, np.float32)
    state = clusters_of(60, np.arange(10))
    assign_all(distances, state, weights)
    first, quiet = 0, 0
    while quiet < 60:
        first, quiet, _ = sweep(distances, state, weights, first, quiet, 7)
    assert np.sort(state.medoids).tolist() == fasterpam(distances, np.arange(10))[0].tolist()
