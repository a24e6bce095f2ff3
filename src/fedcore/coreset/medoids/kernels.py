"""Where Python enters compiled loops, but for moves on lists; searches have a file, a door here."""

import math

import numpy as np

from fedcore.compiled import compiled, compiled_training, inlined
from fedcore.coreset.medoids import geometry, products, search
from fedcore.coreset.medoids.geometry import LEAF, Doubles, Floats, Found, Indices, Leaves, Rows
from fedcore.coreset.medoids.problem import COARSE, FAR, FINE
from fedcore.coreset.medoids.products import Products
from fedcore.coreset.medoids.search import Index


@inlined
def _mixed(word: np.int64) -> np.int64:
    return word ^ (word >> np.int64(15))


@compiled
def add_keys(keys: Indices, values: Floats, factors: Indices) -> None:
    """Add linear forms of rows to ``keys``: the twin of ``plain.add_keys``."""
    count, width = values.shape
    words, middle, away = values.view(np.int32), np.zeros(width), 0.0
    for point in range(count):
        total = np.int64(0)
        for t in range(width):
            total += _mixed(np.int64(words[point, t])) * factors[t]
        keys[len(keys) - 1, point] += total
    if len(keys) == 1:
        return
    for point in range(count):
        for t in range(width):
            middle[t] += values[point, t]
    mean = (middle / count).astype(np.float32)
    for point in range(count):
        for t in range(width):
            away += np.abs(values[point, t] - mean[t])
    bits = FINE - math.frexp(away / max(1, values.size))[1]
    scale, coarse = np.float32(2.0 ** min(bits, 127)), np.float32(2.0 ** (COARSE - FINE))
    for point in range(count):
        first = second = np.int64(0)
        for t in range(width):
            step = (values[point, t] - mean[t]) * scale
            step = min(max(step, np.float32(-FAR)), np.float32(FAR))
            first += _mixed(np.int64(np.int32(np.rint(step * coarse)))) * factors[t]
            second += _mixed(np.int64(np.int32(np.rint(step)))) * factors[t]
        keys[0, point] += first
        keys[1, point] += second


@compiled_training
def measured(points: Floats | Doubles, served: Indices) -> tuple[float, float, float, float]:
    """Return Σ_j ‖p_j − p_s(j)‖, ‖Σ_j (p_j − p_s(j))‖, ‖Σ_j p_j‖ and mean ‖p_j‖, in float64.

    The twin of ``metric.pair_distances`` and ``gradient_error``, with weights that are counts.
    """
    count, width = points.shape
    gap, whole = np.zeros(width), np.zeros(width)
    total = scale = 0.0
    for j in range(count):
        squared = length = 0.0
        for t in range(width):
            value = np.float64(points[j, t])
            difference = value - np.float64(points[served[j], t])
            gap[t] += difference
            whole[t] += value
            squared += difference * difference
            length += value * value
        total += np.sqrt(squared)
        scale += np.sqrt(length)
    return total, np.sqrt(np.sum(gap * gap)), np.sqrt(np.sum(whole * whole)), scale / count


@compiled
def _select(keys: Floats, items: Indices, low: int, high: int, rank: int) -> None:
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
def _widest(points: Floats, items: Indices, begin: int, end: int) -> int:
    """Return the coordinate in which points begin .. end spread most."""
    width = points.shape[1]
    low, high = points[items[begin]].copy(), points[items[begin]].copy()
    for position in range(begin + 1, end):
        row = points[items[position]]
        for t in range(width):
            low[t] = min(low[t], row[t])
            high[t] = max(high[t], row[t])
    return int(np.argmax(high - low))


@compiled
def spatial_order(points: Floats) -> Indices:
    """Return a permutation of the points [n, d] whose runs of 64 lie close together.

    Halved at the median of the widest coordinate until 64 are left: the leaves of a k-d tree
    (Bentley, "Multidimensional binary search trees used for associative searching", 1975).
    """
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


@compiled
def member_costs(
    rows: Rows, leaves: Leaves, weights: Floats, begins: Indices, skip: int, most: int, out: Doubles
) -> None:
    """Set out[c] to Σ_{j in cluster} w_j d(c, j) for ``most`` members of each behind ``skip``.

    Clusters are the rows begins[i] .. begins[i + 1]; late in training one may hold most points.
    """
    squared = np.empty(LEAF, np.float32)
    for cluster in range(len(begins) - 1):
        begin, end = begins[cluster], begins[cluster + 1]
        for member in range(begin + skip, min(end, begin + skip + most)):
            total = 0.0
            for leaf in range(begin // LEAF, (end - 1) // LEAF + 1):
                geometry.squared_to_leaf(rows, member, leaves, leaf, squared)
                base = leaf * LEAF
                for j in range(max(begin - base, 0), min(end - base, LEAF)):
                    total += np.float64(weights[base + j]) * np.float64(np.sqrt(squared[j]))
            out[member] = total


@compiled
def nearest_by_leaves(rows: Rows, queries: Indices, index: Index, found: Found, own: bool) -> None:
    """See ``search``."""
    search.nearest_by_leaves(rows, queries, index, found, own)


@compiled
def nearest_by_products(
    rows: Rows, queries: Indices, index: Products, inner: Floats, found: Found, own: bool
) -> None:
    """See ``products``."""
    products.nearest_by_products(rows, queries, index, inner, found, own)
