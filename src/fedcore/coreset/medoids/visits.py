"""Distances from a group of queries to a leaf of long vectors, most of them not computed at all.

The first coordinates of a rotated vector say that most points are too far, since a sum over some
coordinates is never more than the whole. Only pairs that pass are computed in full, one by one.
(For outer products see ``outer``; here they are computed in full, which only a hurry asks for.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled
from fedcore.coreset.medoids.bounds import Index
from fedcore.coreset.medoids.geometry import (
    FAR,
    LEAF,
    Floats,
    Rows,
    accumulate,
    squared_to_leaf,
)
from fedcore.coreset.medoids.pairs import LANES, between

MANY = 6  # points of a leaf for which computing all 64 together is cheaper than one by one


@compiled
def _heads(
    rows: Rows,
    queries: NDArray[np.int64],
    visitors: NDArray[np.int64],
    visiting: int,
    index: Index,
    leaf: int,
    worst: Floats,
    out: Floats,
) -> int:
    """Keep the visitors that are near somebody by the first coordinates, and those sums."""
    kept = 0
    for visitor in range(visiting):
        q = visitors[visitor]
        limit = worst[q]
        # Written always, kept by moving on: a branch would wait for the sums.
        accumulate(index.leaves.left, leaf, rows.left, queries[q], out[kept])
        near = np.int32(0)
        for j in range(LEAF):
            near += np.int32(out[kept, j] <= limit)
        visitors[kept] = q
        kept += int(near > 0)
    return kept


@compiled
def _whole(rows: Rows, point: int, index: Index, leaf: int, out: Floats, row: int) -> None:
    """Add the other coordinates for all 64 points."""
    rest = np.empty(LEAF, np.float32)
    accumulate(index.leaves.right, leaf, rows.right, point, rest)
    for j in range(LEAF):
        out[row, j] += rest[j]


@compiled
def _one_by_one(
    rows: Rows, point: int, index: Index, leaf: int, limit: float, out: Floats, row: int
) -> None:
    """Add the other coordinates where the sum is within ``limit``."""
    sums = np.empty(LANES, np.float32)
    begin = leaf * LEAF
    for j in range(min(LEAF, len(index.names) - begin)):
        if out[row, j] <= limit:
            out[row, j] += between(rows.right, point, index.names[begin + j], sums)


@compiled
def squared_to_visitors(
    rows: Rows,
    queries: NDArray[np.int64],
    visitors: NDArray[np.int64],
    visiting: int,
    index: Index,
    leaf: int,
    worst: Floats,
    out: Floats,
) -> int:
    """Set out[i] [64] to the squared distances between the i-th visitor and a leaf's points.

    ``visitors`` number ``queries``. What exceeds worst[visitor] may be any number that does, and
    visitors that are near nobody are taken out. Returns how many are left.
    """
    if len(rows.norm_left) > 0:
        rest = np.empty(LEAF, np.float32)
        for visitor in range(visiting):
            point = queries[visitors[visitor]]
            squared_to_leaf(rows, point, index.leaves, leaf, out[visitor], rest, FAR)
        return visiting
    kept = _heads(rows, queries, visitors, visiting, index, leaf, worst, out)
    for visitor in range(kept):
        q = visitors[visitor]
        limit, near = worst[q], np.int32(0)
        for j in range(LEAF):
            near += np.int32(out[visitor, j] <= limit)
        if near > MANY:
            _whole(rows, queries[q], index, leaf, out, visitor)
        else:
            _one_by_one(rows, queries[q], index, leaf, limit, out, visitor)
    return kept
