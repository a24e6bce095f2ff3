"""Exact nearest neighbours: leaves of 64 points, skipped where a bound says none can be near.

The search is brute force made cheap. Points stand in spatial order; for 64 queries at a time and
every leaf there is a lower bound on the distance (to the leaf's box in a Euclidean space, to its
ball by the triangle inequality otherwise), leaves are visited from near to far, and a leaf is
looked at only while its bound is below the query's current K-th distance. The answer is exact:
bounds only ever save work, and ties go to the lower position.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled
from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.geometry import (
    LEAF,
    Floats,
    Leaves,
    Rows,
    leaves_of,
    squared_to_leaf,
    take_rows,
)

Ints = NDArray[np.int32]
Keys = NDArray[np.uint64]

NOTHING = np.uint64(0xFFFFFFFFFFFFFFFF)
BOX_DIMENSIONS = 40  # beyond, boxes overlap so much that bounds cost more than they save


class Index(NamedTuple):
    """Points to search among, in spatial order, with what bounds need."""

    leaves: Leaves
    names: Ints  # [m] what each point is called in answers
    low: Floats  # [d, leaves] boxes; no rows where bounds are balls
    high: Floats  # [d, leaves]
    centres: Leaves  # each leaf's middle point; no leaves where bounds are boxes
    radius: Floats  # [leaves]


def index_of(rows: Rows, names: NDArray[np.integer]) -> Index:
    """Prepare the points called ``names`` (positions in ``rows``, ascending) to be searched."""
    chosen = take_rows(rows, names)
    leaves = leaves_of(chosen)
    count, width = chosen.left.shape
    starts = np.arange(0, count, LEAF)
    boxes = not rows.right.shape[1] and width <= BOX_DIMENSIONS
    low = high = np.zeros((0, len(starts)), np.float32)
    centres, radius = leaves_of(take_rows(rows, names[:0])), np.zeros(0, np.float32)
    if boxes:
        low = np.ascontiguousarray(np.minimum.reduceat(chosen.left, starts, axis=0).T)
        high = np.ascontiguousarray(np.maximum.reduceat(chosen.left, starts, axis=0).T)
    elif rows.right.shape[1]:
        middles = np.minimum(starts + LEAF // 2, count - 1)
        centres = leaves_of(take_rows(chosen, middles))
        radius = _radii(chosen, leaves, middles, count)
    return Index(leaves, names.astype(np.int32), low, high, centres, radius)


@compiled
def _radii(rows: Rows, leaves: Leaves, middles: NDArray[np.int64], count: int) -> Floats:
    radius = np.zeros(len(middles), np.float32)
    scratch = np.empty((2, LEAF), np.float32)
    for leaf in range(len(middles)):
        squared_to_leaf(rows, middles[leaf], leaves, leaf, scratch[0], scratch[1])
        for j in range(min(LEAF, count - leaf * LEAF)):
            radius[leaf] = max(radius[leaf], np.sqrt(scratch[0, j]))
    return radius


@compiled
def _bound(rows: Rows, point: int, index: Index, bounds: Floats, scratch: Floats) -> None:
    """Set ``bounds`` [leaves] to no more than the squared distances of ``point`` to each leaf."""
    bounds[:] = 0.0
    total = len(bounds)
    for t in range(index.low.shape[0]):
        q = rows.left[point, t]
        low, high = index.low[t], index.high[t]
        for leaf in range(total):
            gap = max(max(low[leaf] - q, q - high[leaf]), np.float32(0.0))
            bounds[leaf] += gap * gap
    for group in range(index.centres.left.shape[0]):
        squared_to_leaf(rows, point, index.centres, group, scratch[0], scratch[1])
        begin = group * LEAF
        for j in range(min(LEAF, total - begin)):
            gap = np.sqrt(scratch[0, j]) * np.float32(0.9999) - index.radius[begin + j]
            gap = max(gap, np.float32(0.0))
            bounds[begin + j] = gap * gap


@compiled
def _keep_nearest(found: Keys, squared: Floats, names: Ints, own: int) -> None:
    """Insert those of 64 points that beat the last of ``found`` [K], sorted keys.

    A key is the bits of a squared distance above the point's name: for numbers that are not
    negative, the order of the bits is the order of the numbers, and ties go by name.
    """
    bits = squared.view(np.uint32)
    last = len(found) - 1
    size = len(names)
    for begin in range(0, size, 16):
        worst = np.uint32(found[last] >> np.uint64(32))
        end = min(begin + 16, size)
        hits = 0
        for j in range(begin, end):
            hits += bits[j] <= worst
        if hits == 0:
            continue
        for j in range(begin, end):
            key = (np.uint64(bits[j]) << np.uint64(32)) | np.uint64(names[j])
            if key >= found[last] or names[j] == own:
                continue
            position = last
            while position > 0 and found[position - 1] > key:
                found[position] = found[position - 1]
                position -= 1
            found[position] = key


@compiled
def search_run(
    rows: Rows, queries: NDArray[np.int64], index: Index, points: Ints, distances: Floats
) -> None:
    """Fill ``points`` and ``distances`` [m, K] with the nearest of ``index`` to m <= 64 queries.

    A query is never its own neighbour. Where fewer than K points exist, −1 is filled in.
    """
    count, k = points.shape
    leaves = index.leaves.left.shape[0]
    size = len(index.names)
    found = np.empty((count, k), np.uint64)
    bounds = np.empty((count, leaves), np.float32)
    nearness = np.zeros(leaves, np.float32)
    scratch = np.empty((2, LEAF), np.float32)
    for q in range(count):
        found[q, :] = NOTHING
        _bound(rows, queries[q], index, bounds[q], scratch)
        nearness += bounds[q]
    for leaf in np.argsort(nearness):
        names = index.names[leaf * LEAF : min((leaf + 1) * LEAF, size)]
        for q in range(count):
            worst = found[q, k - 1]
            squared_worst = np.uint32(worst >> np.uint64(32))
            # Rounding may push a bound above the distance it bounds: allow for that.
            bound = bounds[q, leaf] * np.float32(0.9999)
            if worst != NOTHING and np.float32(bound).view(np.uint32) > squared_worst:
                continue
            squared_to_leaf(rows, queries[q], index.leaves, leaf, scratch[0], scratch[1])
            _keep_nearest(found[q], scratch[0], names, queries[q])
    for q in range(count):
        for position in range(k):
            key = found[q, position]
            if key == NOTHING:
                points[q, position] = -1
                distances[q, position] = 0.0
            else:
                points[q, position] = np.int32(key & np.uint64(0xFFFFFFFF))
                squared = np.uint32(key >> np.uint64(32))
                distances[q, position] = np.sqrt(squared.view(np.float32))


def nearest(
    rows: Rows,
    queries: NDArray[np.int64],
    index: Index,
    k: int,
    *,
    threads: int = 1,
    deadline: Deadline | None = None,
) -> tuple[Ints, Floats] | None:
    """Return each query's k nearest points of ``index``, [m, k] names and distances, sorted.

    Queries are positions in ``rows``, best given in spatial order. None if the time ran out.
    """
    points = np.empty((len(queries), k), np.int32)
    distances = np.empty((len(queries), k), np.float32)

    def run(begin: int) -> None:
        part = slice(begin, begin + LEAF)
        search_run(rows, queries[part], index, points[part], distances[part])

    begins = range(0, len(queries), LEAF)
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            done = sum(1 for _ in pool.map(run, _while_time(begins, deadline)))
    else:
        done = 0
        for begin in _while_time(begins, deadline):
            run(begin)
            done += 1
    return (points, distances) if done == len(begins) else None


def _while_time(begins: range, deadline: Deadline | None) -> Iterator[int]:
    for begin in begins:
        if deadline is not None and deadline.over():
            return
        yield begin
