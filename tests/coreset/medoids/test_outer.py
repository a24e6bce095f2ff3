"""Neighbours of outer products against all distances written out."""

import numpy as np
import pytest

from fedcore.coreset.medoids.bounds import index_of
from fedcore.coreset.medoids.dense import distance_matrix
from fedcore.coreset.medoids.geometry import rows_of
from fedcore.coreset.medoids.neighbours import nearest
from fedcore.coreset.medoids.outer import lower_bounds, search_outer
from fedcore.coreset.metric import OuterProduct

RNG = np.random.default_rng(0)


def trained(count, width=70):
    """Norms over four orders of magnitude, inputs with a few leading directions."""
    residuals = RNG.normal(size=(count, 4)) * 10.0 ** RNG.uniform(-4, 0, size=(count, 1))
    factors = RNG.normal(size=(count, 6)) @ RNG.normal(size=(6, width))
    return OuterProduct(residuals, np.abs(factors + 0.3 * RNG.normal(size=(count, width))))


@pytest.mark.parametrize("width", [3, 70])
def test_bounds_are_never_above_the_distances(width):
    rows = rows_of(trained(200, width))
    index = index_of(rows, np.arange(200), bare=True)
    exact = distance_matrix(rows).astype(np.float64) ** 2
    bounds = np.empty(256, np.float32)
    shares = []
    for point in range(200):
        lower_bounds(rows, point, index, bounds)
        others = np.arange(200) != point
        assert (bounds[:200][others] <= exact[point, others] * (1 + 1e-4)).all()
        shares.append((bounds[:200][others] / exact[point, others]).mean())
    assert np.mean(shares) > 0.5  # bounds that say little would save nothing


@pytest.mark.parametrize("k", [1, 8, 60, 250])
@pytest.mark.parametrize("keep_own", [True, False])
def test_the_nearest_are_found(k, keep_own):
    rows = rows_of(trained(300))
    members = np.arange(0, 300, 2)
    index = index_of(rows, members, bare=True)
    points, distances = np.empty((64, k), np.int32), np.empty((64, k), np.float32)
    queries = np.arange(100, 164)
    search_outer(rows, queries, index, points, distances, keep_own)
    exact = distance_matrix(rows)
    for row, query in enumerate(queries):
        allowed = members if keep_own else members[members != query]
        found = points[row][points[row] >= 0]
        assert len(found) == min(k, len(allowed))
        assert len(set(found)) == len(found)
        assert set(found) <= set(allowed)
        want = np.sort(exact[query, allowed])[: len(found)]
        slack = 1e-3 * float(np.sqrt(rows.norm_left[query] * rows.norm_right[query])) + 1e-6
        np.testing.assert_allclose(distances[row, : len(found)], want, rtol=1e-3, atol=slack)


def test_a_search_of_some_leaves_needs_more_than_a_bare_index():
    rows = rows_of(trained(300))
    index = index_of(rows, np.arange(300))
    points, _ = nearest(rows, np.arange(300), index, 5, most=1)
    assert (points >= 0).all()
