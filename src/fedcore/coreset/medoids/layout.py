"""A problem laid out for neighbour lists: in spatial order, one label after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcore.coreset.medoids.bounds import Ints, index_of
from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.geometry import LEAF, Floats, Rows, take_rows
from fedcore.coreset.medoids.lists import EXTRAS, Lists, fill_lists
from fedcore.coreset.medoids.neighbours import EVERY, nearest, nearest_in_own_leaf
from fedcore.coreset.medoids.solution import Problem, Solution
from fedcore.coreset.medoids.spatial import spatial_order

ALWAYS = 20_000  # leaves of medoids that are looked at however little time is left


@dataclass(frozen=True, slots=True)
class Layout:
    """The points of a problem where near ones stand together; *places* count from here on."""

    order: NDArray[np.int64]  # [n] which point of the problem stands in a place
    rows: Rows
    weights: Floats
    segments: tuple[tuple[int, int], ...]  # where each label begins and ends
    far: float  # no less than any distance
    threads: int

    def __len__(self) -> int:
        return len(self.order)

    def places(self, points: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark the places where ``points`` of the problem stand."""
        marked = np.zeros(len(self), np.bool_)
        marked[points] = True
        return marked[self.order]

    def solution(
        self,
        chosen: NDArray[np.bool_],
        near: Ints,
        certified: float,
        swaps: int,
        path: str,
        finished: bool,
    ) -> Solution:
        """Go back from places to points; ``near`` [n] is the place of each place's medoid."""
        names = np.sort(self.order[chosen])
        owner = np.empty(len(self), np.int64)
        owner[self.order] = self.order[near]
        return Solution(names, np.searchsorted(names, owner), certified, swaps, path, finished)


def layout_of(problem: Problem) -> Layout:
    """Sort the points so that runs of 64 lie together, inside their label if there are labels."""
    rows, labels = problem.rows, problem.labels
    if labels is None:
        parts = [np.arange(len(rows.left))]
    else:
        parts = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    order = np.concatenate([part[spatial_order(rows.left[part])] for part in parts])
    ends = np.cumsum([len(part) for part in parts]).tolist()
    far = 2.001 * _largest_norm(rows) + 1e-30
    if labels is not None:
        far *= 2 * len(order)  # a label without a medoid must cost more than all else together
    return Layout(
        order,
        take_rows(rows, order),
        problem.weights[order],
        tuple(zip([0, *ends[:-1]], ends, strict=True)),
        far,
        problem.threads,
    )


def _largest_norm(rows: Rows) -> float:
    squared = np.einsum("ij,ij->i", rows.left, rows.left)
    if len(rows.norm_left):
        return float(np.sqrt((squared * rows.norm_right).max()))
    return float(np.sqrt((squared + np.einsum("ij,ij->i", rows.right, rows.right)).max()))


def build_lists(
    layout: Layout,
    length: int,
    deadline: Deadline,
    most: int = EVERY,
    among: NDArray[np.bool_] | None = None,
) -> Lists | None:
    """Return every point's list of ``length`` entries, or None if the time ran out.

    Lists that come of the ``most`` nearest leaves alone are complete up to a radius of 0. With
    ``among``, lists hold the point itself and its nearest of those places, and are complete as
    far as those are concerned.
    """
    count, length = len(layout), min(length, len(layout))
    width = length + EXTRAS
    lists = Lists(
        np.empty((count, width), np.int32),
        np.empty((count, width), np.float32),
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty(count, np.float32),
        np.empty(count, np.float32),
    )
    # In pieces, so that what the search returns is never in memory beside all of the lists.
    for begin, end in layout.segments:
        inside = np.arange(begin, end)
        if among is not None:
            inside = inside[among[begin:end]]
        complete = len(inside) + (among is not None) <= length
        index = index_of(layout.rows, inside, bare=most == EVERY)
        for first in range(begin, end, 8192):
            queries = np.arange(first, min(first + 8192, end))
            found = nearest(
                layout.rows,
                queries,
                index,
                length - 1,
                threads=layout.threads,
                deadline=deadline,
                most=most,
            )
            if found is None:
                return None
            fill_lists(lists, first, found[0], found[1], complete, layout.far)
    if most < EVERY:
        lists.radius[:] = 0.0
        lists.reach[:] = 0.0
    return lists


def nearest_among(
    layout: Layout,
    members: NDArray[np.bool_],
    queries: NDArray[np.int64],
    number: int,
    deadline: Deadline,
) -> tuple[Ints, Floats] | None:
    """Return the ``number`` nearest ``members`` of each query inside its own label.

    Queries are places in ascending order. Where there are too few members, −1 is filled in.
    None if the time ran out.
    """
    points = np.full((len(queries), number), -1, np.int32)
    distances = np.zeros((len(queries), number), np.float32)
    for begin, end in layout.segments:
        low, high = np.searchsorted(queries, [begin, end])
        inside = begin + np.flatnonzero(members[begin:end])
        if low == high or not len(inside):
            continue
        index = index_of(layout.rows, inside, bare=True)
        found = nearest(
            layout.rows,
            queries[low:high],
            index,
            number,
            threads=layout.threads,
            deadline=deadline,
            keep_own=True,
        )
        if found is None:
            return None
        points[low:high], distances[low:high] = found
    return points, distances


def assign_places(
    layout: Layout,
    members: NDArray[np.bool_],
    queries: NDArray[np.int64],
    known: Ints,
    deadline: Deadline,
) -> tuple[Ints, bool]:
    """Return the nearest of ``members`` to each query, and whether there was time to be sure.

    ``known`` [m] are members that will do where time runs out, −1 where there is none: then it
    is the best of 64 that stand about where the query does. Queries are places, ascending, and
    every label that they have has a member.
    """
    nearest_members = known.copy()
    indices = []
    for begin, end in layout.segments:
        low, high = np.searchsorted(queries, [begin, end])
        inside = begin + np.flatnonzero(members[begin:end])
        if low < high:
            indices.append((low, high, index_of(layout.rows, inside)))
    for low, high, index in indices:
        lost = low + np.flatnonzero(known[low:high] < 0)
        place = np.minimum(np.searchsorted(index.names, queries[lost]), len(index.names) - 1)
        found = np.empty(len(lost), np.int32)
        nearest_in_own_leaf(layout.rows, queries[lost], index, place // LEAF, found)
        nearest_members[lost] = found
    # So little work is done in any case: looking at the clock would cost as much.
    small = sum((high - low) * len(index.leaves.left) for low, high, index in indices)
    hurry = Deadline() if small <= ALWAYS else deadline
    for low, high, index in indices:
        last = 0
        size = high - low if hurry.moment is None else 4 * LEAF * layout.threads
        for first, last in hurry.pieces(high - low, size):
            part = slice(low + first, low + last)
            found_part = nearest(
                layout.rows, queries[part], index, 1, threads=layout.threads, keep_own=True
            )
            assert found_part is not None  # there was no deadline
            nearest_members[part] = found_part[0][:, 0]
        if last < high - low:
            return nearest_members, False
    return nearest_members, True
