"""Where Python enters compiled loops, but for moves on lists; for neighbours, see ``search``."""

import math

import numpy as np

from fedcore.compiled import compiled, compiled_training, inlined
from fedcore.coreset.medoids import geometry, search
from fedcore.coreset.medoids.geometry import LEAF, Leaves
from fedcore.coreset.medoids.problem import COARSE, FAR, FINE, Rows
from fedcore.coreset.medoids.search import Found, Index, Products
from fedcore.coreset.metric import Doubles, Floats, Indices


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
    parts = [(0, count)]
    while parts:
        begin, end = parts.pop()
        if end - begin <= LEAF:
            continue
        axis = _widest(points, items, begin, end)
        for position in range(begin, end):
            keys[position] = points[items[position], axis]
        # Left parts are whole leaves, so that leaf borders fall on multiples of 64.
        middle = begin + ((end - begin + LEAF - 1) // LEAF + 1) // 2 * LEAF
        _select(keys, items, begin, end - 1, middle)
        parts += [(begin, middle), (middle, end)]
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
def nearest_by_leaves(
    rows: Rows, queries: Indices, index: Index, found: Found, keep_own: bool
) -> None:
    """Find the nearest of ``index`` to m <= 64 queries."""
    points, distances = found
    count, k = points.shape
    wanted = k if keep_own else k + 1  # the query itself may be among them
    room = 2 * wanted + 32
    keys = np.empty((count, room + LEAF), np.uint64)
    held = np.zeros(count, np.int64)
    worst = np.full(LEAF, -1.0, np.float32)  # what squared distances must not exceed; -1: nobody
    worst[:count] = geometry.FAR
    reached = np.empty((LEAF, LEAF), np.float32)
    reached_bits, worst_bits = reached.view(np.uint32), worst.view(np.uint32)
    turned = np.zeros((rows.left.shape[1], LEAF), np.float32)
    turned[:, :count] = rows.left[queries].T
    leaves = index.leaves.shape[0]
    least, near = np.empty(leaves, np.float32), np.empty(leaves, np.float32)
    search.group_bounds(index, turned, count, least, near)
    bounds = np.empty(LEAF, np.float32)
    visitors = np.empty(LEAF, np.int64)
    for leaf in np.argsort(near):
        largest = worst[0]
        for q in range(LEAF):
            largest = max(largest, worst[q])
        # Rounding may push a bound above the distance it bounds: allow for that.
        if least[leaf] * np.float32(0.9999) > largest:
            continue
        bounds[:] = 0.0
        for t in range(len(turned)):
            search.add_gaps(turned[t], turned[t], index.low[t, leaf], index.high[t, leaf], bounds)
        visiting = 0
        for q in range(LEAF):
            # Written always, kept by moving on, as in ``collect``.
            visitors[visiting] = q
            visiting += bounds[q] * np.float32(0.9999) <= worst[q]
        # First all distances, then all comparisons: a branch that was guessed wrongly would throw
        # away the next distances, begun in the meantime.
        for visitor in range(visiting):
            point = queries[visitors[visitor]]
            geometry.accumulate(index.leaves, leaf, rows.left, point, reached[visitor])
        for visitor in range(visiting):
            q = visitors[visitor]
            bits = reached_bits[visitor]
            held[q] = search.collect(keys, q, held[q], bits, index.names, leaf, worst_bits[q])
            if held[q] > room:
                held[q] = search.thin(keys, q, held[q], wanted, wanted // 4)
                worst_bits[q] = search.furthest_bits(keys, q, held[q])
    for q in range(count):
        search.write(keys, q, held[q], -1 if keep_own else queries[q], points, distances)


@compiled
def nearest_by_products(
    rows: Rows, queries: Indices, index: Products, products: Floats, found: Found, keep_own: bool
) -> None:
    """Find the nearest to m queries; ``products`` [m, size] are inner products with ``index``."""
    points, distances = found
    names, norms = index.names, index.rows.norms
    size = len(names)
    slack = np.float32(1e-6 + 3e-7 * math.sqrt(rows.left.shape[1] + rows.right.shape[1]))
    wanted = points.shape[1] + (0 if keep_own else 1)  # the query itself may be among them
    keys = np.empty((1, 2 * wanted + 64), np.uint64)
    bounds = np.full(-(-size // LEAF) * LEAF, geometry.FAR, np.float32)  # nobody at the end
    bits = bounds.view(np.uint32)
    sure, two, zero = np.float32(1.0) - slack, np.float32(2.0), np.float32(0.0)
    for q in range(len(queries)):
        point = queries[q]
        own = rows.norms[point]
        for j in range(size):
            bounds[j] = max(sure * (own + norms[j]) - two * products[q, j], zero)
        least = min(wanted, size)
        nearest = np.uint32(search.threshold(bits[:size], least, least // 4))
        span = np.uint32(0), nearest
        held = search.measure(rows, point, names, bits, span, keys, 0, wanted)
        if held >= wanted:
            held = search.thin(keys, 0, held, wanted, 0)
            span = nearest + np.uint32(1), search.furthest_bits(keys, 0, held)
            held = search.measure(rows, point, names, bits, span, keys, held, wanted)
        own_name, row = -1 if keep_own else point, slice(q, q + 1)
        search.write(keys, 0, held, own_name, points[row], distances[row])
