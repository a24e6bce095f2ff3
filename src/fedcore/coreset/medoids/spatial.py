"""Points in an order in which neighbours stand together: a k-d tree's leaves, read off.

Bentley, "Multidimensional binary search trees used for associative searching" (1975). Segments
are halved at the median of their widest coordinate until 64 points are left, so every run of 64
points is a small box; the tree itself is not kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled
from fedcore.coreset.medoids.geometry import LEAF, Floats


@compiled
def _select(keys: Floats, items: NDArray[np.int64], low: int, high: int, rank: int) -> None:
    """Reorder low .. high (inclusive) so that the rank-th smallest key stands at ``rank``."""
    while low < high:
        a, b, c = keys[low], keys[(low + high) // 2], keys[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                items[i], items[j] = items[j], items[i]
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            return


@compiled
def _widest(points: Floats, items: NDArray[np.int64], begin: int, end: int) -> int:
    """Return the coordinate in which points begin .. end spread most."""
    width = points.shape[1]
    low, high = points[items[begin]].copy(), points[items[begin]].copy()
    for position in range(begin + 1, end):
        row = points[items[position]]
        for t in range(width):
            low[t] = min(low[t], row[t])
            high[t] = max(high[t], row[t])
    best, spread = 0, high[0] - low[0]
    for t in range(1, width):
        if high[t] - low[t] > spread:
            best, spread = t, high[t] - low[t]
    return best


@compiled
def spatial_order(points: Floats) -> NDArray[np.int64]:
    """Return a permutation of the points [n, d] whose runs of 64 lie close together."""
    count = points.shape[0]
    items = np.arange(count)
    keys = np.empty(count, np.float32)
    begins, ends = np.empty(128, np.int64), np.empty(128, np.int64)
    begins[0], ends[0], depth = 0, count, 1
    while depth > 0:
        depth -= 1
        begin, end = begins[depth], ends[depth]
        if end - begin <= LEAF:
            continue
        axis = _widest(points, items, begin, end)
        for position in range(begin, end):
            keys[position] = points[items[position], axis]
        # Left parts are whole leaves, so that leaf borders fall on multiples of 64.
        middle = begin + ((end - begin + LEAF - 1) // LEAF + 1) // 2 * LEAF
        _select(keys, items, begin, end - 1, middle)
        begins[depth], ends[depth] = begin, middle
        begins[depth + 1], ends[depth + 1] = middle, end
        depth += 2
    return items
