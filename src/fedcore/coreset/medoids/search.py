"""Exact nearest neighbours, by leaves or, of long vectors, by matrix products.

Points stand in spatial order, in leaves of 64; Σ_t max(low_t − x_t, x_t − high_t, 0)² bounds the
squared distances to a leaf's box from below, and the box of 64 queries bounds them all at once.
Leaves are visited from near to far while their bound is below a query's K-th distance. The answer
is exact; ties go to the lower position.

In many dimensions no box is far: there a matrix product bounds all distances.

    ‖g_i − g_j‖² = ‖g_i‖² + ‖g_j‖² − 2 ⟨g_i, g_j⟩,   of outer products ⟨r_i, r_j⟩⟨z_i, z_j⟩,

in float32 is wrong by some millionths of the norms: less that slack, a lower bound. Of the K points
with the least bounds, distances are computed from differences, then of those whose bound is below
the K-th. What is returned does not depend on how the product was rounded.

Found points are kept as *keys*: the bits of a squared distance above a point's name. For numbers
that are not negative the order of bits is that of numbers, so sorting keys sorts neighbours.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled, inlined
from fedcore.coreset.medoids import geometry
from fedcore.coreset.medoids.geometry import LANES, LEAF, Real
from fedcore.coreset.medoids.problem import Rows
from fedcore.coreset.metric import Floats, Ints

Keys = NDArray[np.uint64]
Bits = NDArray[np.uint32]
Span = tuple[np.uint32, np.uint32]  # the least and the largest, as bits
Found = tuple[Ints, Floats]  # names and distances [m, K] to be filled in


class Index(NamedTuple):
    """Points to search among, in spatial order, with what bounds need."""

    leaves: Floats  # [leaves, d, 64]
    names: Ints  # [m] what each point is called in answers
    low: Floats  # [d, leaves] boxes
    high: Floats  # [d, leaves]


class Products(NamedTuple):
    """Points to search among by matrix products."""

    names: Ints  # [m] what each point is called in answers
    rows: Rows  # [m]


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
    """Write the least of keys[row, :count] in order without ``own``, each behind smaller ones."""
    room = points.shape[1]
    if count > room + 9:
        count = thin(keys, row, count, room + 1, 8)
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
def add_gaps(low: Floats, high: Floats, begin: Real, end: Real, out: Floats) -> None:
    """Add to ``out`` the squared gaps in one coordinate between low .. high and begin .. end."""
    for j in range(len(out)):
        gap = max(low[j] - end, begin - high[j], np.float32(0.0))
        out[j] += gap * gap


@compiled
def group_bounds(index: Index, turned: Floats, count: int, least: Floats, near: Floats) -> None:
    """Bound queries' distances to every leaf, box to box; ``near``, of some, is how to visit."""
    least[:], near[:] = 0.0, 0.0
    for t in range(index.low.shape[0]):
        own, low, high = turned[t, :count], index.low[t], index.high[t]
        add_gaps(low, high, own.min(), own.max(), least)
        for q in range(0, count, max(1, count // 8)):
            add_gaps(low, high, own[q], own[q], near)


@inlined
def collect(
    keys: Keys, row: int, count: int, bits: Bits, names: Ints, leaf: int, limit: np.uint32
) -> int:
    """Append the points of a leaf that are no further than ``limit``; return the new count."""
    begin = leaf * LEAF
    for j in range(min(LEAF, len(names) - begin)):
        # Written always, kept by moving on: a branch here would be mispredicted.
        keys[row, count] = key_of(bits[j], names[begin + j])
        count += bits[j] <= limit
    return count


@compiled
def measure(
    rows: Rows, point: int, names: Ints, bounds: Bits, span: Span, keys: Keys, held: int, most: int
) -> int:
    """Append keys of points with bounds in a ``span``; of too many the ``most`` nearest stay."""
    (least, limit), room, sums = span, keys.shape[1] - 1, np.empty(LANES, np.float32)
    for begin in range(0, len(bounds), LEAF):
        for j in range(begin, begin + LEAF):
            if bounds[j] < least or bounds[j] > limit:
                continue
            sums[0] = geometry.squared_of_pair(rows, point, names[j], sums)
            keys[0, held] = key_of(sums.view(np.uint32)[0], names[j])
            held += 1
            if held > room:
                held = thin(keys, 0, held, most, most // 4)
                limit = min(limit, furthest_bits(keys, 0, held))
    return held
