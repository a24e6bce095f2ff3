"""A problem laid out for neighbour lists: in spatial order, one label after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.geometry import Floats, Rows, take_rows
from fedcore.coreset.medoids.lists import EXTRAS, Lists, fill_lists
from fedcore.coreset.medoids.neighbours import Ints, index_of, nearest
from fedcore.coreset.medoids.solution import Problem
from fedcore.coreset.medoids.spatial import spatial_order


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


def build_lists(layout: Layout, length: int, deadline: Deadline) -> Lists | None:
    """Return every point's list of ``length`` entries, or None if the time ran out."""
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
        index = index_of(layout.rows, np.arange(begin, end))
        for first in range(begin, end, 8192):
            queries = np.arange(first, min(first + 8192, end))
            found = nearest(
                layout.rows, queries, index, length - 1, threads=layout.threads, deadline=deadline
            )
            if found is None:
                return None
            fill_lists(lists, first, found[0], found[1], end - begin <= length, layout.far)
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
        index = index_of(layout.rows, inside)
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
