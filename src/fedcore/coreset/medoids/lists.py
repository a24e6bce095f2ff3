"""Neighbour lists: what each point knows of the others, and who knows a point.

A list starts with the point itself at distance 0 and goes on with its K − 1 nearest, exactly.
Behind them stand a few *extras*, medoids further away that a repair has found; between the two
there may be gaps, so anything beyond ``radius`` is an upper bound and not the truth.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled, inlined
from fedcore.coreset.medoids.geometry import Floats, Ints

EXTRAS = 16  # room behind the exact part of a list


class Lists(NamedTuple):
    """Sorted neighbour lists of n points."""

    points: Ints  # [n, K + extras]
    distances: Floats  # [n, K + extras]
    exact: Ints  # [n] how many entries are the nearest without a gap
    size: Ints  # [n] how many entries there are
    radius: Floats  # [n] up to where the list is complete
    reach: Floats  # [n] up to where it held all medoids at the last repair


class Reverse(NamedTuple):
    """For each point, those that have it in their list: points[offsets[i] : offsets[i + 1]].

    The exact parts of lists never change, extras do at every repair: each has a table of its own.
    """

    offsets: NDArray[np.int64]  # [n + 1]
    points: Ints
    distances: Floats
    extra_offsets: NDArray[np.int64]  # [n + 1]
    extra_points: Ints
    extra_distances: Floats


@compiled
def add_extras(
    lists: Lists,
    chosen: NDArray[np.bool_],
    rows: NDArray[np.int64],
    found: Ints,
    distances: Floats,
    fresh: bool,
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
def who_lists(lists: Lists, begins: Ints, ends: Ints) -> tuple[NDArray[np.int64], Ints, Floats]:
    """Return who has each point between places begins[j] and ends[j] of its list.

    The three arrays of ``Reverse``.
    """
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
    return offsets, points, distances
