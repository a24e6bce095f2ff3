"""Neighbour lists: what each point knows of the others, and who knows a point.

A list starts with the point itself at distance 0 and goes on with its K − 1 nearest, exactly.
Behind them stand a few *extras*, medoids further away that a repair has found; between the two
there may be gaps, so anything beyond ``radius`` is an upper bound and not the truth.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled
from fedcore.coreset.medoids.geometry import Floats
from fedcore.coreset.medoids.neighbours import Ints

EXTRAS = 8  # room behind the exact part of a list


class Lists(NamedTuple):
    """Sorted neighbour lists of n points."""

    points: Ints  # [n, K + extras]
    distances: Floats  # [n, K + extras]
    exact: Ints  # [n] how many entries are the nearest without a gap
    size: Ints  # [n] how many entries there are
    radius: Floats  # [n] up to where the list is complete


class Reverse(NamedTuple):
    """For each point, those that have it in their list: points[offsets[i] : offsets[i + 1]]."""

    offsets: NDArray[np.int64]  # [n + 1]
    points: Ints
    distances: Floats


@compiled
def fill_lists(
    lists: Lists, first: int, found: Ints, distances: Floats, complete: bool, far: float
) -> None:
    """Write lists of points first, first + 1, ... from their neighbours [m, K − 1]."""
    for row in range(found.shape[0]):
        point = first + row
        lists.points[point, 0] = point
        lists.distances[point, 0] = 0.0
        size = 1
        for position in range(found.shape[1]):
            if found[row, position] < 0:
                break
            lists.points[point, size] = found[row, position]
            lists.distances[point, size] = distances[row, position]
            size += 1
        lists.exact[point] = size
        lists.size[point] = size
        # A list that holds everybody has no border.
        lists.radius[point] = np.float32(far) if complete else lists.distances[point, size - 1]


@compiled
def add_extras(lists: Lists, rows: NDArray[np.int64], found: Ints, distances: Floats) -> None:
    """Put medoids [m, E <= EXTRAS], sorted, behind the exact part of the lists of ``rows``.

    They replace the extras that were there.
    """
    for row in range(len(rows)):
        point = rows[row]
        size = lists.exact[point]
        exact = lists.exact[point]
        border = lists.distances[point, exact - 1]
        for position in range(found.shape[1]):
            name, distance = found[row, position], distances[row, position]
            if name < 0:
                break
            known = distance < border
            if distance == border:
                # Roots may tie where squares did not: look whether it is listed.
                for other in range(exact):
                    known |= lists.points[point, other] == name
            if known:
                continue
            lists.points[point, size] = name
            lists.distances[point, size] = distance
            size += 1
        lists.size[point] = size


@compiled
def reversed_lists(lists: Lists) -> Reverse:
    """Return who has each point in their list."""
    count = len(lists.size)
    offsets = np.zeros(count + 1, np.int64)
    for point in range(count):
        for position in range(lists.size[point]):
            offsets[lists.points[point, position] + 1] += 1
    for point in range(count):
        offsets[point + 1] += offsets[point]
    points = np.empty(offsets[count], np.int32)
    distances = np.empty(offsets[count], np.float32)
    free = offsets[:count].copy()
    for point in range(count):
        for position in range(lists.size[point]):
            other = lists.points[point, position]
            points[free[other]] = point
            distances[free[other]] = lists.distances[point, position]
            free[other] += 1
    return Reverse(offsets, points, distances)
