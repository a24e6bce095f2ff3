"""The nearest points found so far, as keys: the bits of a squared distance above a point's name.

For numbers that are not negative, the order of the bits is the order of the numbers, and ties go
by name: so a key is compared at once, and sorting keys sorts neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled, inlined
from fedcore.coreset.medoids.bounds import Index, Ints
from fedcore.coreset.medoids.geometry import LEAF, Floats

Keys = NDArray[np.uint64]

PART = 16  # points of a leaf that are passed over together if none is near


@compiled
def thin(keys: Keys, row: int, count: int, wanted: int, slack: int) -> int:
    """Keep the smallest of keys[row, :count]: at least ``wanted``, at most ``slack`` more.

    Bisection on the value with vectorised counting: no branch depends on the data, where
    quickselect would mispredict half of its comparisons. Returns how many are left.
    """
    low, high = keys[row, 0], keys[row, 0]
    for i in range(count):
        low, high = min(low, keys[row, i]), max(high, keys[row, i])
    while low < high:
        middle = low + ((high - low) >> np.uint64(1))
        inside = 0
        for i in range(count):
            inside += keys[row, i] <= middle
        if inside < wanted:
            low = middle + np.uint64(1)
        else:
            high = middle
            if inside <= wanted + slack:
                break
    kept = 0
    for i in range(count):
        key = keys[row, i]
        keys[row, kept] = key
        kept += key <= high
    return kept


@compiled
def furthest_bits(keys: Keys, row: int, count: int) -> np.uint32:
    """Return the bits of the largest squared distance among keys[row, :count]."""
    largest = np.uint64(0)
    for i in range(count):
        largest = max(largest, keys[row, i])
    return np.uint32(largest >> np.uint64(32))


@inlined
def largest_of(values: Floats) -> np.float32:
    """Return the largest of some numbers."""
    largest: np.float32 = values[0]
    for i in range(len(values)):
        largest = max(largest, values[i])
    return largest


@inlined
def _key(bits: np.uint32, name: np.int32) -> np.uint64:
    return (np.uint64(bits) << np.uint64(32)) | np.uint64(name)


@inlined
def collect(
    keys: Keys, row: int, count: int, bits: NDArray[np.uint32], index: Index, leaf: int, worst: int
) -> int:
    """Append the points of a leaf that are no further than ``worst``; return the new count.

    A key is the bits of a squared distance above the point's name: for numbers that are not
    negative, the order of the bits is the order of the numbers, and ties go by name.
    """
    begin = leaf * LEAF
    limit = np.uint32(worst)
    if begin + LEAF > len(index.names):  # the last leaf, which is not full
        for j in range(len(index.names) - begin):
            keys[row, count] = _key(bits[j], index.names[begin + j])
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
            keys[row, count] = _key(bits[part + j], index.names[begin + part + j])
            count += bits[part + j] <= limit
    return count


@compiled
def write(keys: Keys, row: int, count: int, own: int, points: Ints, distances: Floats) -> None:
    """Write keys[row, :count] in order, without ``own``, as far as there is room.

    A key's place is the number of smaller keys: quadratic, but without branches.
    """
    room = points.shape[1]
    for place in range(room):
        points[row, place] = -1
        distances[row, place] = 0.0
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
