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

from fedcore.compiled import compiled, inlined
from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.geometry import (
    FAR,
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
    count = len(chosen.left)
    starts = np.arange(0, count, LEAF)
    low = high = np.zeros((0, len(starts)), np.float32)
    centres, radius = leaves_of(take_rows(rows, names[:0])), np.zeros(0, np.float32)
    if not len(rows.norm_left):
        low = np.ascontiguousarray(np.minimum.reduceat(chosen.left, starts, axis=0).T)
        high = np.ascontiguousarray(np.maximum.reduceat(chosen.left, starts, axis=0).T)
    else:
        middles = np.minimum(starts + LEAF // 2, count - 1)
        centres = leaves_of(take_rows(chosen, middles))
        radius = _radii(chosen, leaves, middles, count)
    return Index(leaves, names.astype(np.int32), low, high, centres, radius)


@compiled
def _radii(rows: Rows, leaves: Leaves, middles: NDArray[np.int64], count: int) -> Floats:
    radius = np.zeros(len(middles), np.float32)
    squared, rest = np.empty(LEAF, np.float32), np.empty(LEAF, np.float32)
    for leaf in range(len(middles)):
        squared_to_leaf(rows, middles[leaf], leaves, leaf, squared, rest, FAR)
        for j in range(min(LEAF, count - leaf * LEAF)):
            radius[leaf] = max(radius[leaf], np.sqrt(squared[j]))
    return radius


@inlined
def _box_bounds(index: Index, turned: Floats, leaf: int, bounds: Floats) -> None:
    """Set ``bounds`` [64] to the squared distances of 64 queries [d, 64] to the leaf's box."""
    for q in range(LEAF):
        bounds[q] = 0.0
    for t in range(index.low.shape[0]):
        low, high = index.low[t, leaf], index.high[t, leaf]
        for q in range(LEAF):
            gap = max(low - turned[t, q], turned[t, q] - high)
            gap = max(gap, np.float32(0.0))
            bounds[q] += gap * gap


@compiled
def _ball_bounds(rows: Rows, point: int, index: Index, bounds: Floats, q: int) -> None:
    """Set bounds[:, q] to no more than the squared distances of ``point`` to each leaf."""
    squared, rest = np.empty(LEAF, np.float32), np.empty(LEAF, np.float32)
    for group in range(index.centres.left.shape[0]):
        squared_to_leaf(rows, point, index.centres, group, squared, rest, FAR)
        begin = group * LEAF
        for j in range(min(LEAF, bounds.shape[0] - begin)):
            gap = np.sqrt(squared[j]) * np.float32(0.9999) - index.radius[begin + j]
            gap = max(gap, np.float32(0.0))
            bounds[begin + j, q] = gap * gap


@compiled
def _group_bounds(index: Index, turned: Floats, count: int, least: Floats, near: Floats) -> None:
    """For a group of queries and every leaf: a bound for all of them, and how near it is.

    ``least`` is the squared distance between the queries' box and the leaf's, ``near`` the sum of
    the distances of a few of them to the leaf's box, which is the better order to visit in.
    """
    for leaf in range(len(least)):
        least[leaf] = 0.0
        near[leaf] = 0.0
    step = max(1, count // 8)
    for t in range(index.low.shape[0]):
        low, high = turned[t, 0], turned[t, 0]
        for q in range(count):
            low, high = min(low, turned[t, q]), max(high, turned[t, q])
        for leaf in range(len(least)):
            gap = max(index.low[t, leaf] - high, low - index.high[t, leaf])
            gap = max(gap, np.float32(0.0))
            least[leaf] += gap * gap
        for q in range(0, count, step):
            value = turned[t, q]
            for leaf in range(len(least)):
                gap = max(index.low[t, leaf] - value, value - index.high[t, leaf])
                gap = max(gap, np.float32(0.0))
                near[leaf] += gap * gap


@compiled
def _by_nearness(near: Floats) -> Ints:
    """Return the leaves from near to far, roughly: sorted by exponent and four bits behind it."""
    bits = near.view(np.uint32)
    begins = np.zeros(4097, np.int32)
    for leaf in range(len(near)):
        begins[(bits[leaf] >> np.uint32(19)) + 1] += 1
    for bucket in range(4096):
        begins[bucket + 1] += begins[bucket]
    order = np.empty(len(near), np.int32)
    for leaf in range(len(near)):
        bucket = bits[leaf] >> np.uint32(19)
        order[begins[bucket]] = leaf
        begins[bucket] += 1
    return order


@compiled
def _thin(keys: Keys, row: int, count: int, wanted: int, slack: int) -> int:
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


@inlined
def _collect(
    keys: Keys, row: int, count: int, bits: NDArray[np.uint32], index: Index, leaf: int, worst: int
) -> int:
    """Append the points of a leaf that are no further than ``worst``; return the new count.

    A key is the bits of a squared distance above the point's name: for numbers that are not
    negative, the order of the bits is the order of the numbers, and ties go by name.
    """
    begin = leaf * LEAF
    limit = np.uint32(worst)
    last = begin + LEAF > len(index.names)
    size = len(index.names) - begin if last else LEAF
    for part in range(0, size, 16):
        if not last:
            hits = np.uint32(0)
            for j in range(16):
                hits += np.uint32(bits[part + j] <= limit)
            if hits == 0:
                continue
        for j in range(part, min(part + 16, size)):
            # Written always, kept by moving on: a branch here would be mispredicted.
            name = np.uint64(index.names[begin + j])
            keys[row, count] = (np.uint64(bits[j]) << np.uint64(32)) | name
            count += bits[j] <= limit
    return count


@compiled
def _write(keys: Keys, row: int, count: int, own: int, points: Ints, distances: Floats) -> None:
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


@compiled
def search_run(
    rows: Rows,
    queries: NDArray[np.int64],
    index: Index,
    points: Ints,
    distances: Floats,
    keep_own: bool,
) -> None:
    """Fill ``points`` and ``distances`` [m, K] with the nearest of ``index`` to m <= 64 queries."""
    count, k = points.shape
    wanted = k if keep_own else k + 1  # the query itself may be among them
    room = 2 * wanted + 32
    keys = np.empty((count, room + LEAF), np.uint64)
    held = np.zeros(count, np.int64)
    worst = np.empty(LEAF, np.float32)  # squared distance that a point must not exceed
    worst[:count] = FAR
    worst[count:] = -1.0  # nobody
    squared, rest = np.empty(LEAF, np.float32), np.empty(LEAF, np.float32)
    squared_bits, worst_bits = squared.view(np.uint32), worst.view(np.uint32)
    boxes, leaves = index.low.shape[0] > 0, index.leaves.left.shape[0]
    least, near = np.zeros(leaves, np.float32), np.zeros(leaves, np.float32)
    turned = np.zeros((rows.left.shape[1], LEAF), np.float32)
    balls = np.zeros((0 if boxes else leaves, LEAF), np.float32)
    if boxes:
        for q in range(count):
            for t in range(rows.left.shape[1]):
                turned[t, q] = rows.left[queries[q], t]
        _group_bounds(index, turned, count, least, near)
    else:
        for q in range(count):
            _ball_bounds(rows, queries[q], index, balls, q)
            for leaf in range(leaves):
                near[leaf] += balls[leaf, q]
    bounds = np.empty(LEAF, np.float32)
    visitors = np.empty(LEAF, np.int64)
    for leaf in _by_nearness(near):
        # Rounding may push a bound above the distance it bounds: allow for that.
        largest_worst = worst[0]
        for q in range(LEAF):
            largest_worst = max(largest_worst, worst[q])
        if least[leaf] * np.float32(0.9999) > largest_worst:
            continue
        if boxes:
            _box_bounds(index, turned, leaf, bounds)
        else:
            bounds[:] = balls[leaf]
        visiting = 0
        for q in range(LEAF):
            # Written always, kept by moving on, as in _collect.
            visitors[visiting] = q
            visiting += bounds[q] * np.float32(0.9999) <= worst[q]
        for visitor in range(visiting):
            q = visitors[visitor]
            if not squared_to_leaf(rows, queries[q], index.leaves, leaf, squared, rest, worst[q]):
                continue
            held[q] = _collect(keys, q, held[q], squared_bits, index, leaf, worst_bits[q])
            if held[q] > room:
                held[q] = _thin(keys, q, held[q], wanted, wanted // 4)
                largest = np.uint64(0)
                for i in range(held[q]):
                    largest = max(largest, keys[q, i])
                worst_bits[q] = np.uint32(largest >> np.uint64(32))
    for q in range(count):
        if held[q] > wanted + 8:
            held[q] = _thin(keys, q, held[q], wanted, 8)
        _write(keys, q, held[q], -1 if keep_own else queries[q], points, distances)


def nearest(
    rows: Rows,
    queries: NDArray[np.int64],
    index: Index,
    k: int,
    *,
    threads: int = 1,
    deadline: Deadline | None = None,
    keep_own: bool = False,
) -> tuple[Ints, Floats] | None:
    """Return each query's k nearest points of ``index``, [m, k] names and distances, sorted.

    Queries are positions in ``rows``, best given in spatial order. A query is its own neighbour
    only with ``keep_own``. Where there are fewer than k points, −1 is filled in. None if the
    time ran out.
    """
    points = np.empty((len(queries), k), np.int32)
    distances = np.empty((len(queries), k), np.float32)

    def run(begin: int) -> None:
        part = slice(begin, begin + LEAF)
        search_run(rows, queries[part], index, points[part], distances[part], keep_own)

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
