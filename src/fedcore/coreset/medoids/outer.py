"""Exact nearest neighbours of outer products, most of whose distances are only bounded.

    ‖g_i − g_j‖² = ‖Δr‖² s_z + Δ‖r‖² Δ‖z‖² / 2 + ⟨r_i, r_j⟩ ‖Δz‖²

(``metric`` rearranged) is linear in ‖Δz‖², and with q for a projection on a few orthonormal
directions and t for what it leaves of a vector, ‖Δq‖² <= ‖Δz‖² <= ‖Δq‖² + (t_i + t_j)²: one
or the other, by the sign of ⟨r_i, r_j⟩, bounds the distance from below. So for each query all
bounds are computed, then the distances of the K points with the least bounds, and then those of
points whose bound is below the K-th distance: on trained gradients a few more than K.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled
from fedcore.coreset.medoids.bounds import Index, Ints
from fedcore.coreset.medoids.geometry import FAR, LEAF, Floats, Rows, accumulate
from fedcore.coreset.medoids.keys import Keys, furthest_bits, thin, write
from fedcore.coreset.medoids.pairs import LANES, between, outer_squared

SLACK = 2e-6  # of the squared norms: what rounding may add to a bound


@compiled
def lower_bounds(rows: Rows, point: int, index: Index, out: Floats) -> None:
    """Set ``out`` to no more than the squared distances of ``point`` to all points of ``index``.

    There are 64 for each leaf, of which the last may be filled up with zeros.
    """
    leaves = index.leaves
    left, head = np.empty(LEAF, np.float32), np.empty(LEAF, np.float32)
    norm_left, norm_right, tail = rows.norm_left[point], rows.norm_right[point], rows.tail[point]
    half, zero = np.float32(0.5), np.float32(0.0)
    for leaf in range(leaves.left.shape[0]):
        accumulate(leaves.left, leaf, rows.left, point, left)
        accumulate(leaves.head, leaf, rows.head, point, head)
        begin = leaf * LEAF
        for j in range(LEAF):
            other_left, other_right = leaves.norm_left[leaf, j], leaves.norm_right[leaf, j]
            slope = half * (norm_left + other_left - left[j])  # ⟨r_i, r_j⟩
            both = tail + leaves.tail[leaf, j]
            value = left[j] * half * (norm_right + other_right)
            value += half * ((norm_left - other_left) * (norm_right - other_right))
            value += slope * head[j] + min(slope, zero) * both * both
            slack = np.float32(SLACK) * (norm_left * norm_right + other_left * other_right)
            out[begin + j] = max(value - slack, zero)


@compiled
def _threshold(bits: NDArray[np.uint32], wanted: int) -> np.uint32:
    """Return a number that at least ``wanted`` of ``bits`` do not exceed, and not many more."""
    low: np.uint32 = bits[0]
    high: np.uint32 = bits[0]
    for i in range(len(bits)):
        low, high = min(low, bits[i]), max(high, bits[i])
    while low < high:
        middle = low + ((high - low) >> np.uint32(1))
        inside = np.uint32(0)
        for i in range(len(bits)):
            inside += np.uint32(bits[i] <= middle)
        if inside < wanted:
            low = middle + np.uint32(1)
        else:
            high = middle
            if inside <= wanted + wanted // 4:
                break
    return high


@compiled
def _measure(
    rows: Rows,
    point: int,
    index: Index,
    bounds: NDArray[np.uint32],
    least: np.uint32,
    limit: np.uint32,
    keys: Keys,
    held: int,
    wanted: int,
    sums: Floats,
) -> int:
    """Append the keys of points with bounds between ``least`` and ``limit``, given as bits.

    Returns how many keys are held. When they become too many, the furthest go, and the limit
    falls.
    """
    room = keys.shape[1] - 1
    for begin in range(0, len(bounds), LEAF):
        hits = np.uint32(0)
        for j in range(LEAF):
            hits += np.uint32((bounds[begin + j] >= least) & (bounds[begin + j] <= limit))
        if hits == 0:
            continue
        for j in range(begin, begin + LEAF):
            if bounds[j] < least or bounds[j] > limit:
                continue
            other = index.names[j]
            left = between(rows.left, point, other, sums)
            right = between(rows.right, point, other, sums)
            sums[0] = outer_squared(rows, point, other, left, right)
            bits = sums.view(np.uint32)[0]
            keys[0, held] = (np.uint64(bits) << np.uint64(32)) | np.uint64(other)
            held += 1
            if held > room:
                held = thin(keys, 0, held, wanted, wanted // 4)
                limit = min(limit, furthest_bits(keys, 0, held))
    return held


@compiled
def search_outer(
    rows: Rows,
    queries: NDArray[np.int64],
    index: Index,
    points: Ints,
    distances: Floats,
    keep_own: bool,
) -> None:
    """Fill ``points`` and ``distances`` [m, K] with the nearest of ``index`` to m queries."""
    size = len(index.names)
    wanted = points.shape[1] + (0 if keep_own else 1)  # the query itself may be among them
    keys = np.empty((1, 2 * wanted + 64), np.uint64)
    padded = index.leaves.left.shape[0] * LEAF
    all_bounds = np.empty(padded, np.float32)
    bits = all_bounds.view(np.uint32)
    sums = np.empty(LANES, np.float32)
    for q in range(len(queries)):
        point = queries[q]
        lower_bounds(rows, point, index, all_bounds)
        all_bounds[size:] = FAR  # nobody
        nearest = _threshold(bits[:size], min(wanted, size))
        none, next_one = np.uint32(0), nearest + np.uint32(1)
        held = _measure(rows, point, index, bits, none, nearest, keys, 0, wanted, sums)
        if held >= wanted:
            held = thin(keys, 0, held, wanted, 0)
            limit = furthest_bits(keys, 0, held)
            held = _measure(rows, point, index, bits, next_one, limit, keys, held, wanted, sums)
        if held > wanted + 8:
            held = thin(keys, 0, held, wanted, 8)
        write(keys, 0, held, -1 if keep_own else point, points[q : q + 1], distances[q : q + 1])
