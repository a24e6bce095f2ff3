"""The one door between Python and compiled loops: what a call without a clock enters.

What needs a file of its own is compiled into a door of one line; see the module it is taken from.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled, compiled_training, inlined
from fedcore.coreset.medoids import moves, products, search
from fedcore.coreset.medoids.geometry import LEAF, Floats, Ints, Leaves, Rows, squared_to_leaf
from fedcore.coreset.medoids.moves import Lists, Reverse, State, Tables
from fedcore.coreset.medoids.plain import COARSE, FAR, FINE
from fedcore.coreset.medoids.products import Products
from fedcore.coreset.medoids.search import Index

Indices = NDArray[np.int64]
Places = NDArray[np.bool_]
Doubles = NDArray[np.float64]


@compiled
def add_words(keys: Indices, values: Floats, factors: Indices) -> None:
    """Add a random linear form of each row to ``keys`` [v, n]: the twin of ``plain.add_words``."""
    count, width = values.shape
    exact = values.view(np.int32)
    for point in range(count):
        total = np.int64(0)
        for t in range(width):
            total += _word(exact[point, t]) * factors[t]
        keys[-1, point] += total
    if len(keys) == 1 or width == 0:
        return
    centre, largest = np.zeros(width, np.float64), np.float32(FAR)
    for point in range(count):
        for t in range(width):
            centre[t] += np.float64(values[point, t])
    middle = (centre / count).astype(np.float32)
    away = 0.0
    for point in range(count):
        for t in range(width):
            away += np.float64(abs(values[point, t] - middle[t]))
    _, exponent = math.frexp(away / (count * width))
    scale = np.float32(2.0 ** min(FINE - exponent, 127))
    coarser = np.float32(2.0 ** (COARSE - FINE))
    for point in range(count):
        coarse = fine = np.int64(0)
        for t in range(width):
            step = (values[point, t] - middle[t]) * scale
            step = min(max(step, -largest), largest)
            coarse += _word(np.int32(np.rint(step * coarser))) * factors[t]
            fine += _word(np.int32(np.rint(step))) * factors[t]
        keys[0, point] += coarse
        keys[1, point] += fine


@compiled
def _word(value: np.int32) -> np.int64:
    wide = np.int64(value)
    return wide ^ (wide >> np.int64(15))  # trailing zeros would carry through the product


@compiled_training
def measured(points: Floats | Doubles, served: Indices) -> tuple[float, float, float, float]:
    """Return Σ_j ‖p_j − p_s(j)‖, ‖Σ_j (p_j − p_s(j))‖, ‖Σ_j p_j‖ and mean ‖p_j‖, in float64.

    The twin of ``metric.pair_distances`` and ``gradient_error``: with weights that are counts,
    Σ_j p_j − Σ_k δ_k p_k is the sum of all differences.
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

    The leaves of a k-d tree, read off (Bentley, "Multidimensional binary search trees used for
    associative searching", 1975): segments are halved at the median of their widest coordinate
    until 64 points are left, so every run of 64 points is a small box.
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
    rows: Rows, leaves: Leaves, weights: Floats, begins: Indices, most: int, out: Doubles
) -> None:
    """Set out[c] to Σ_{j in cluster} w_j d(c, j) for the first ``most`` members c of each cluster.

    Clusters are the rows begins[i] .. begins[i + 1]. Swaps weigh a new medoid against all others
    but know it only through lists; this knows one cluster only, but all of its distances: n² / k
    where clusters are alike. Late in training one cluster may hold most points, hence ``most``.
    """
    squared = np.empty(LEAF, np.float32)
    for cluster in range(len(begins) - 1):
        begin, end = begins[cluster], begins[cluster + 1]
        for member in range(begin, min(end, begin + most)):
            total = 0.0
            for leaf in range(begin // LEAF, (end - 1) // LEAF + 1):
                squared_to_leaf(rows, member, leaves, leaf, squared)
                first = leaf * LEAF
                for j in range(max(begin - first, 0), min(end - first, LEAF)):
                    total += np.float64(weights[first + j]) * np.float64(np.sqrt(squared[j]))
            out[member] = total


@compiled
def nearest_by_leaves(
    rows: Rows, queries: Indices, index: Index, points: Ints, distances: Floats, own: bool
) -> None:
    """Fill in the nearest points; see ``search``."""
    search.nearest_by_leaves(rows, queries, index, points, distances, own)


@compiled
def nearest_by_products(
    rows: Rows,
    queries: Indices,
    index: Products,
    inner: Floats,
    points: Ints,
    distances: Floats,
    own: bool,
) -> None:
    """Fill in the nearest points; see ``products``."""
    products.nearest_by_products(rows, queries, index, inner, points, distances, own)


@compiled
def add_extras(
    lists: Lists, chosen: Places, rows: Indices, found: Ints, distances: Floats, fresh: bool
) -> None:
    """Put medoids [m, E < EXTRAS], sorted, behind the exact part of the lists of ``rows``.

    With ``fresh`` they are the nearest of all medoids and replace what was there. Otherwise
    they are the nearest of those that are new, and join the extras that are medoids still.
    """
    for row in range(len(rows)):
        point = rows[row]
        exact = lists.exact[point]
        size = exact
        if not fresh:
            for position in range(exact, lists.size[point]):
                if chosen[lists.points[point, position]]:
                    lists.points[point, size] = lists.points[point, position]
                    lists.distances[point, size] = lists.distances[point, position]
                    size += 1
        for position in range(found.shape[1]):
            name, distance = found[row, position], distances[row, position]
            if name < 0:
                break
            if distance >= lists.distances[point, exact - 1]:  # else it is listed already
                size = _insert(lists, point, size, name, distance)
        lists.size[point] = size
        if fresh:
            # All of them, if there were fewer than asked for.
            whole = found[row, found.shape[1] - 1] < 0
            lists.reach[point] = 1e30 if whole else distances[row, found.shape[1] - 1]


@inlined
def _insert(lists: Lists, point: int, size: int, name: int, distance: float) -> int:
    """Insert an extra where it belongs, unless it is listed; return the new size."""
    for position in range(size):
        if lists.points[point, position] == name:
            return size
    if size == lists.points.shape[1]:
        size -= 1  # the last one makes room, and is not known of any more
        lists.reach[point] = min(lists.reach[point], lists.distances[point, size - 1])
    place = size
    while place > lists.exact[point] and lists.distances[point, place - 1] > distance:
        lists.points[point, place] = lists.points[point, place - 1]
        lists.distances[point, place] = lists.distances[point, place - 1]
        place -= 1
    lists.points[point, place] = name
    lists.distances[point, place] = distance
    return size + 1


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
def settle(lists: Lists, state: State) -> float:
    """Find everybody's medoids; see ``moves``."""
    return moves.settle(lists, state)


@compiled
def drop(lists: Lists, reverse: Tables, state: State, number: int, limit: float) -> int:
    """Drop the cheapest medoids; see ``moves``."""
    return moves.drop(lists, reverse, state, number, limit)


@compiled
def sweep(
    lists: Lists, reverse: Tables, state: State, first: int, quiet: int, tries: int, least: float
) -> tuple[int, int, int]:
    """Swap where that helps; see ``moves``."""
    return moves.sweep(lists, reverse, state, first, quiet, tries, least)
