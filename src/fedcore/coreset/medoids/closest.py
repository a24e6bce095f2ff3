"""The nearest points found so far, as keys: the bits of a squared distance above a point's name.

For numbers that are not negative, the order of the bits is the order of the numbers, and ties go
by name: so a key is compared at once, and sorting keys sorts neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled, inlined
from fedcore.coreset.medoids.geometry import Floats, Ints

Keys = NDArray[np.uint64]


@inlined
def key_of(bits: np.uint32, name: np.int32) -> np.uint64:
    """Return the key of a point at this squared distance."""
    return (np.uint64(bits) << np.uint64(32)) | np.uint64(name)


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
