"""Distances of which most are not computed, against those that are."""

import numpy as np
import pytest

from fedcore.coreset.medoids.bounds import index_of
from fedcore.coreset.medoids.geometry import LEAF, rows_of
from fedcore.coreset.medoids.visits import squared_to_visitors
from fedcore.coreset.metric import Euclidean, OuterProduct

RNG = np.random.default_rng(0)


def long_points(count):
    """Vectors whose first coordinates say much, but not all."""
    return Euclidean(RNG.normal(size=(count, 90)) * np.linspace(1.5, 0.1, 90))


def outer(count):
    residuals = RNG.normal(size=(count, 4)) * 10.0 ** RNG.uniform(-3, 0, size=(count, 1))
    return OuterProduct(residuals, np.abs(RNG.normal(size=(count, 70))))


def written_out(metric):
    left, right = (None if f is None else f.double().numpy() for f in metric.factors)
    if right is None:
        return left
    ends = np.ones((len(left), 1))
    return np.einsum("ic,id->icd", left, np.hstack((right, ends))).reshape(len(left), -1)


@pytest.mark.parametrize("make", [long_points, outer])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 1.0])
def test_what_is_near_is_computed_and_what_is_not_is_said_to_be_far(make, share):
    metric = make(150)
    rows, long = rows_of(metric), written_out(metric)
    index = index_of(rows, np.arange(1, 150, 2))  # 75 points: a leaf and a part of one
    exact = ((long[:, None] - long[None]) ** 2).sum(2)
    # Rows are scaled by a power of two.
    squares = (rows.left[1] ** 2).sum(), (rows.right[1] ** 2).sum()
    scaled = squares[0] * squares[1] if len(rows.norm_left) else squares[0] + squares[1]
    exact *= scaled / (long[1] ** 2).sum()
    queries = np.arange(0, 150, 3)[:LEAF]
    for leaf in range(2):
        names = index.names[leaf * LEAF : (leaf + 1) * LEAF]
        wanted = exact[np.ix_(queries, names)]
        worst = np.full(LEAF, -1.0, np.float32)
        worst[: len(queries)] = np.quantile(exact[queries], share, axis=1)
        visitors, out = np.arange(LEAF), np.empty((LEAF, LEAF), np.float32)
        left = squared_to_visitors(rows, queries, visitors, len(queries), index, leaf, worst, out)
        assert set(np.flatnonzero((wanted <= worst[: len(queries), None]).any(1))) <= set(
            visitors[:left]
        )
        for row in range(left):
            q = visitors[row]
            got, want = out[row, : len(names)], wanted[q]
            near = want <= worst[q]
            slack = 1e-5 * float(want.max())
            np.testing.assert_allclose(got[near], want[near], rtol=1e-4, atol=slack)
            assert (got[~near] >= worst[q] - slack).all()
