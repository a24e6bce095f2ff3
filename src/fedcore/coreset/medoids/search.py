"""Exact nearest neighbours in few dimensions: most leaves are skipped by a bound.

Points stand in spatial order, in leaves of 64; Σ_t max(low_t − x_t, x_t − high_t, 0)² bounds the
squared distances to a leaf's box from below, and the box of 64 queries bounds them all at once.
Leaves are visited from near to far while their bound is below a query's K-th distance. The answer
is exact; ties go to the lower position.

Found points are kept as *keys*: the bits of a squared distance above a point's name. For numbers
that are not negative the order of bits is that of numbers, so sorting keys sorts neighbours.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled, inlined
from fedcore.coreset.medoids import geometry
from fedcore.coreset.medoids.geometry import FAR, LEAF, Floats, Found, Indices, Ints, Real, Rows

Keys = NDArray[np.uint64]
PART = 16  # points of a leaf that are passed over together if none is near


class Index(NamedTuple):
    """Points to search among, in spatial order, with what bounds need."""

    leaves: Floats  # [leaves, d, 64]
    names: Ints  # [m] what each point is called in answers
    low: Floats  # [d, leaves] boxes
    high: Floats  # [d, leaves]


@inlined
def key_of(bits: np.uint32, name: np.int32) -> np.uint64:
    """Return the key of a point at this squared distance."""
    return (np.uint64(bits) << np.uint64(32)) | np.uint64(name)


@compiled
def threshold(values: NDArray[np.unsignedinteger], wanted: int, slack: int) -> np.uint64:
    """Return what ``wanted`` to + ``slack`` values do not exceed, with no branch to mispredict."""
    low: np.uint64 = values[0]
    high: np.uint64 = values[0]
    for i in range(len(values)):
        low, high = min(low, values[i]), max(high, values[i])
    while low < high:
        middle = low + ((high - low) >> np.uint32(1))
        inside = 0
        for i in range(len(values)):
            inside += values[i] <= middle
        if inside < wanted:
            low = middle + np.uint32(1)
        else:
            high = middle
            if inside <= wanted + slack:
                break
    return high


@compiled
def thin(keys: Keys, row: int, count: int, wanted: int, slack: int) -> int:
    """Keep the smallest of keys[row, :count], ``wanted`` or up to ``slack`` more; say how many."""
    high = threshold(keys[row, :count], wanted, slack)
    kept = 0
    for i in range(count):
        key = keys[row, i]
        keys[row, kept] = key
        kept += key <= high
    return kept


@compiled
def furthest_bits(keys: Keys, row: int, count: int) -> np.uint32:
    """Return the bits of the largest squared distance among keys[row, :count]."""
    return np.uint32(keys[row, :count].max() >> np.uint64(32))


@compiled
def write(keys: Keys, row: int, count: int, own: int, points: Ints, distances: Floats) -> None:
    """Write keys[row, :count] in order without ``own``, each at the number of smaller ones."""
    room = points.shape[1]
    points[row], distances[row] = -1, 0.0
    own_key = np.uint64(0xFFFFFFFFFFFFFFFF)
    for i in range(count):
        if np.int64(keys[row, i] & np.uint64(0xFFFFFFFF)) == own:
            own_key = keys[row, i]
    for i in range(count):
        key = keys[row, i]
        place = -int(key > own_key)
        for j in range(count):
            place += keys[row, j] < key
        if place < room and key != own_key:
            squared = np.uint32(key >> np.uint64(32))
            points[row, place] = np.int32(key & np.uint64(0xFFFFFFFF))
            distances[row, place] = np.sqrt(squared.view(np.float32))


@inlined
def _add_gaps(low: Floats, high: Floats, begin: Real, end: Real, out: Floats) -> None:
    """Add to ``out`` the squared gaps in one coordinate between low .. high and begin .. end."""
    for j in range(len(out)):
        gap = max(low[j] - end, begin - high[j], np.float32(0.0))
        out[j] += gap * gap


@compiled
def _group_bounds(index: Index, turned: Floats, count: int, least: Floats, near: Floats) -> None:
    """Bound queries' distances to every leaf, box to box; ``near``, of some, is how to visit."""
    least[:], near[:] = 0.0, 0.0
    for t in range(index.low.shape[0]):
        own, low, high = turned[t, :count], index.low[t], index.high[t]
        _add_gaps(low, high, own.min(), own.max(), least)
        for q in range(0, count, max(1, count // 8)):
            _add_gaps(low, high, own[q], own[q], near)


@inlined
def _collect(
    keys: Keys, row: int, count: int, bits: NDArray[np.uint32], names: Ints, leaf: int, worst: int
) -> int:
    """Append the points of a leaf that are no further than ``worst``; return the new count."""
    begin = leaf * LEAF
    limit = np.uint32(worst)
    if begin + LEAF > len(names):  # the last leaf, which is not full
        for j in range(len(names) - begin):
            keys[row, count] = key_of(bits[j], names[begin + j])
            count += bits[j] <= limit
        return count
    for part in range(0, LEAF, PART):
        hits = np.uint32(0)
        for j in range(PART):
            hits += np.uint32(bits[part + j] <= limit)
        if hits == 0:
            continue
        for j in range(PART):
            # Written always, kept by moving on: a branch here would be mispredicted.
            keys[row, count] = key_of(bits[part + j], names[begin + part + j])
            count += bits[part + j] <= limit
    return count


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
    worst = np.empty(LEAF, np.float32)  # squared distance that a point must not exceed
    worst[:count] = FAR
    worst[count:] = -1.0  # nobody
    reached = np.empty((LEAF, LEAF), np.float32)
    reached_bits, worst_bits = reached.view(np.uint32), worst.view(np.uint32)
    turned = np.zeros((rows.left.shape[1], LEAF), np.float32)
    for q in range(count):
        for t in range(rows.left.shape[1]):
            turned[t, q] = rows.left[queries[q], t]
    leaves = index.leaves.shape[0]
    least, near = np.empty(leaves, np.float32), np.empty(leaves, np.float32)
    _group_bounds(index, turned, count, least, near)
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
            _add_gaps(turned[t], turned[t], index.low[t, leaf], index.high[t, leaf], bounds)
        visiting = 0
        for q in range(LEAF):
            # Written always, kept by moving on, as in _collect.
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
            held[q] = _collect(keys, q, held[q], bits, index.names, leaf, worst_bits[q])
            if held[q] > room:
                held[q] = thin(keys, q, held[q], wanted, wanted // 4)
                worst_bits[q] = furthest_bits(keys, q, held[q])
    for q in range(count):
        if held[q] > wanted + 8:
            held[q] = thin(keys, q, held[q], wanted, 8)
        write(keys, q, held[q], -1 if keep_own else queries[q], points, distances)
