"""The one door from Python to compiled loops; others have a file, and a door of one line here."""

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled, compiled_training
from fedcore.coreset.medoids import geometry, moves, products, search
from fedcore.coreset.medoids.geometry import LEAF, Floats, Found, Indices, Ints, Leaves, Rows
from fedcore.coreset.medoids.moves import Lists, Reverse, State, Tables
from fedcore.coreset.medoids.products import Products
from fedcore.coreset.medoids.search import Index

Doubles = NDArray[np.float64]


@compiled
def add_words(keys: Indices, words: NDArray[np.int32], factors: Indices) -> None:
    """Add Σ_t factor_t word_t of each row to ``keys`` [v, n]: the twin of ``plain.add_words``."""
    for key in range(len(words)):
        for point in range(words.shape[1]):
            total = np.int64(0)
            for t in range(words.shape[2]):
                wide = np.int64(words[key, point, t])
                total += (wide ^ (wide >> np.int64(15))) * factors[t]
            keys[key, point] += total


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
    best, spread = 0, high[0] - low[0]
    for t in range(1, width):
        if high[t] - low[t] > spread:
            best, spread = t, high[t] - low[t]
    return best


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
def add_extras(lists: Lists, rows: Indices, found: Ints, distances: Floats) -> None:
    """Put medoids [m, EXTRAS], sorted, or −1, behind the exact part of the lists of ``rows``."""
    for row in range(len(rows)):
        point = rows[row]
        exact = size = lists.exact[point]
        for extra in range(found.shape[1]):
            name, distance = found[row, extra], distances[row, extra]
            listed = name < 0 or distance < lists.distances[point, exact - 1]
            for position in range(exact):
                listed |= lists.points[point, position] == name
            if not listed:
                lists.points[point, size], lists.distances[point, size] = name, distance
                size += 1
        lists.size[point] = size


@compiled
def who_lists(lists: Lists, begins: Ints, ends: Ints) -> Reverse:
    """Return who has each point between places begins[j] and ends[j] of its list."""
    count = len(lists.size)
    offsets = np.zeros(count + 1, np.int64)
    for point in range(count):
        for position in range(begins[point], ends[point]):
            offsets[lists.points[point, position] + 1] += 1
    for point in range(count):
        offsets[point + 1] += offsets[point]
    points = np.empty(offsets[count], np.int32)
    distances = np.empty(offsets[count], np.float32)
    free = offsets[:count].copy()
    for point in range(count):
        for position in range(begins[point], ends[point]):
            other = lists.points[point, position]
            points[free[other]] = point
            distances[free[other]] = lists.distances[point, position]
            free[other] += 1
    return Reverse(offsets, points, distances)


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


@compiled
def settle(lists: Lists, state: State) -> float:
    """See ``moves``."""
    return moves.settle(lists, state)


@compiled
def drop(lists: Lists, reverse: Tables, state: State, number: int, limit: float) -> int:
    """See ``moves``."""
    return moves.drop(lists, reverse, state, number, limit)


@compiled
def sweep(
    lists: Lists, reverse: Tables, state: State, first: int, quiet: int, tries: int, least: float
) -> tuple[int, int, int]:
    """See ``moves``."""
    return moves.sweep(lists, reverse, state, first, quiet, tries, least)
