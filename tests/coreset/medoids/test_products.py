"""Neighbours by matrix products against all distances written out."""

import numpy as np
import pytest
from plain_medoids import distance_matrix, rows_of

from fedcore.coreset.medoids import layout
from fedcore.coreset.medoids.layout import index_of, nearest
from fedcore.coreset.metric import Euclidean, OuterProduct


@pytest.mark.parametrize("width", [3, 70])
@pytest.mark.parametrize("k", [1, 8, 60, 250])
@pytest.mark.parametrize("keep_own", [True, False])
def test_the_nearest_outer_products_are_found(k, width, keep_own):
    """Norms over four orders of magnitude, as in training."""
    draw = np.random.default_rng(0)
    residuals = draw.normal(size=(300, 4)) * 10.0 ** draw.uniform(-4, 0, size=(300, 1))
    rows = rows_of(OuterProduct(residuals, np.abs(draw.normal(size=(300, width)))))
    members, queries = np.arange(0, 300, 2), np.arange(100, 164)
    points, distances = nearest(rows, queries, index_of(rows, members), k, keep_own=keep_own)
    exact = distance_matrix(rows)
    for row, query in enumerate(queries):
        allowed = members if keep_own else members[members != query]
        found = points[row][points[row] >= 0]
        assert len(found) == len(set(found)) == min(k, len(allowed))
        assert set(found) <= set(allowed)
        want = np.sort(exact[query, allowed])[: len(found)]
        slack = 1e-3 * float(np.sqrt(rows.norms[query])) + 1e-6
        np.testing.assert_allclose(distances[row, : len(found)], want, rtol=1e-3, atol=slack)


def test_products_that_are_wrong_by_their_slack_change_nothing():
    """Long vectors far from zero: their inner products tell next to nothing about distances."""
    draw = np.random.default_rng(1)
    points = (draw.normal(size=(150, 200)) * 1e-3 + 1).astype(np.float32)
    rows = rows_of(Euclidean(points))
    assert len(rows.norms)
    found, _ = nearest(rows, np.arange(150), index_of(rows, np.arange(150)), 5)
    hidden = distance_matrix(rows)
    np.fill_diagonal(hidden, np.inf)
    np.testing.assert_allclose(
        np.take_along_axis(hidden, found, axis=1), np.sort(hidden, axis=1)[:, :5], rtol=1e-4
    )


@pytest.mark.parametrize("outer", [False, True])
def test_half_of_the_products_find_what_all_of_them_do(outer, monkeypatch):
    """Points that search each other, more than go into one product, and none at its border."""
    draw = np.random.default_rng(2)
    left, right = draw.normal(size=(700, 200)), draw.normal(size=(700, 30))
    rows = rows_of(OuterProduct(left, right) if outer else Euclidean(left))
    everyone = np.arange(700)
    half = nearest(rows, everyone, index_of(rows, everyone), 9)
    monkeypatch.setattr(layout, "MUTUAL", 0)
    whole = nearest(rows, everyone, index_of(rows, everyone), 9)
    np.testing.assert_array_equal(half[0], whole[0])
    np.testing.assert_array_equal(half[1], whole[1])
