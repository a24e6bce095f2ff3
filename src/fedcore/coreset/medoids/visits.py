"""Distances from a group of queries to a leaf of long vectors, most of them not computed at all.

A few coordinates say that most points are too far: in a Euclidean space the first ones of a
rotated vector, since Σ over some coordinates is never more than the whole. For outer products

    ‖g_i − g_j‖² = ‖Δr‖² s_z + Δ‖r‖² Δ‖z‖² / 2 + ⟨r_i, r_j⟩ ‖Δz‖²

(``metric`` rearranged) is linear in ‖Δz‖², and with q for a projection on a few orthonormal
directions and t for what it leaves of a vector, ‖Δq‖² <= ‖Δz‖² <= ‖Δq‖² + (t_i + t_j)²: one
or the other, by the sign of ⟨r_i, r_j⟩, bounds the distance from below. Only pairs that pass are
computed in full, one by one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled, inlined
from fedcore.coreset.medoids.bounds import Index
from fedcore.coreset.medoids.geometry import FAR, LEAF, Floats, Rows, accumulate, squared_to_leaf

LANES = 16
MANY = 12  # points of a leaf for which computing all 64 together is cheaper than one by one
SLACK = 2e-6  # of the squared norms: what rounding may add to a bound


@inlined
def between(values: Floats, first: int, second: int, sums: Floats) -> np.float32:
    """Return ‖values[first] − values[second]‖²; ``sums`` [16] is scratch.

    Sixteen sums side by side, added up in the end, since a single one would wait for itself.
    """
    width = values.shape[1]
    for lane in range(LANES):
        sums[lane] = 0.0
    whole = width - width % LANES
    for t in range(0, whole, LANES):
        for lane in range(LANES):
            gap = values[first, t + lane] - values[second, t + lane]
            sums[lane] += gap * gap
    total = np.float32(0.0)
    for lane in range(LANES):
        total += sums[lane]
    for t in range(whole, width):
        gap = values[first, t] - values[second, t]
        total += gap * gap
    return total


@inlined
def _outer(rows: Rows, first: int, second: int, left: np.float32, right: np.float32) -> np.float32:
    """Return the squared distance of two outer products from ‖Δr‖² and ‖Δz‖²."""
    norm_left, norm_right = rows.norm_left[first], rows.norm_right[first]
    other_left, other_right = rows.norm_left[second], rows.norm_right[second]
    half, quarter = np.float32(0.5), np.float32(0.25)
    value = left * (half * (norm_right + other_right) - quarter * right)
    value += right * (half * (norm_left + other_left) - quarter * left)
    value += half * ((norm_left - other_left) * (norm_right - other_right))
    return max(value, np.float32(0.0))


@compiled
def _outer_bounds(
    rows: Rows, point: int, index: Index, leaf: int, left: Floats, out: Floats
) -> None:
    """Set ``out`` [64] to no more than the squared distances; ``left`` [64] holds ‖Δr‖²."""
    leaves = index.leaves
    accumulate(leaves.head, leaf, rows.head, point, out)
    norm_left, norm_right, tail = rows.norm_left[point], rows.norm_right[point], rows.tail[point]
    half = np.float32(0.5)
    for j in range(LEAF):
        other_left, other_right = leaves.norm_left[leaf, j], leaves.norm_right[leaf, j]
        slope = half * (norm_left + other_left - left[j])
        both = tail + leaves.tail[leaf, j]
        most = out[j] + both * both
        value = left[j] * half * (norm_right + other_right)
        value += half * ((norm_left - other_left) * (norm_right - other_right))
        value += slope * (out[j] if slope > np.float32(0.0) else most)
        slack = np.float32(SLACK) * (norm_left * norm_right + other_left * other_right)
        out[j] = value - slack


@compiled
def _one_by_one(
    rows: Rows, point: int, index: Index, leaf: int, limit: float, left: Floats, squared: Floats
) -> None:
    """Replace bounds within ``limit`` by squared distances, and others by a large number."""
    sums = np.empty(LANES, np.float32)
    begin = leaf * LEAF
    for j in range(min(LEAF, len(index.names) - begin)):
        if squared[j] > limit:
            squared[j] = FAR
            continue
        other = index.names[begin + j]
        right = between(rows.right, point, other, sums)
        if len(rows.norm_left) == 0:
            squared[j] += right
        else:
            squared[j] = _outer(rows, point, other, left[j], right)


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
    euclidean = len(rows.norm_left) == 0
    squared, rest = np.empty(LEAF, np.float32), np.empty(LEAF, np.float32)
    left, kept = np.empty(LEAF, np.float32), 0
    for visitor in range(visiting):
        q = visitors[visitor]
        point, limit = queries[q], worst[q]
        accumulate(index.leaves.left, leaf, rows.left, point, squared)
        if not euclidean:
            for j in range(LEAF):
                left[j] = squared[j]
            _outer_bounds(rows, point, index, leaf, left, squared)
        near = 0
        for j in range(LEAF):
            near += squared[j] <= limit
        if near == 0:
            continue
        if near > MANY:
            squared_to_leaf(rows, point, index.leaves, leaf, squared, rest, FAR)
        else:
            _one_by_one(rows, point, index, leaf, limit, left, squared)
        for j in range(LEAF):
            out[kept, j] = squared[j]
        visitors[kept] = q
        kept += 1
    return kept
