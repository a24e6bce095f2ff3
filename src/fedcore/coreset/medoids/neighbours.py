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

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled
from fedcore.coreset.medoids.bounds import Index, Ints, bounds_of, by_nearness, group_of
from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.geometry import FAR, LEAF, Floats, Rows, accumulate, squared_to_leaf
from fedcore.coreset.medoids.keys import collect, furthest_bits, largest_of, thin, write
from fedcore.coreset.medoids.outer import search_outer
from fedcore.coreset.medoids.visits import squared_to_visitors

EVERY = 1 << 30  # as many leaves as there are


@compiled
def search_run(
    rows: Rows,
    queries: NDArray[np.int64],
    index: Index,
    points: Ints,
    distances: Floats,
    keep_own: bool,
    most: int,
) -> None:
    """Fill ``points`` and ``distances`` [m, K] with the nearest of ``index`` to m <= 64 queries.

    Only the ``most`` leaves that lie nearest to the queries are looked at.
    """
    count, k = points.shape
    wanted = k if keep_own else k + 1  # the query itself may be among them
    room = 2 * wanted + 32
    keys = np.empty((count, room + LEAF), np.uint64)
    held = np.zeros(count, np.int64)
    worst = np.empty(LEAF, np.float32)  # squared distance that a point must not exceed
    worst[:count] = FAR
    worst[count:] = -1.0  # nobody
    plain = rows.right.shape[1] == 0  # short vectors, of which all coordinates are looked at
    found = np.empty((LEAF, LEAF), np.float32)
    found_bits, worst_bits = found.view(np.uint32), worst.view(np.uint32)
    group = group_of(rows, queries, index)
    bounds = np.empty(LEAF, np.float32)
    visitors = np.empty(LEAF, np.int64)
    looked_at = 0
    for leaf in by_nearness(group.near):
        # Rounding may push a bound above the distance it bounds: allow for that.
        furthest = largest_of(worst)
        if group.least[leaf] * np.float32(0.9999) > furthest:
            continue
        looked_at += 1
        if looked_at > most:
            break
        bounds_of(index, group, leaf, bounds)
        visiting = 0
        for q in range(LEAF):
            # Written always, kept by moving on, as in collect.
            visitors[visiting] = q
            visiting += bounds[q] * np.float32(0.9999) <= worst[q]
        # First all distances, then all comparisons: a branch that was guessed wrongly would throw
        # away the next distances, begun in the meantime.
        if plain:
            for visitor in range(visiting):
                point = queries[visitors[visitor]]
                accumulate(index.leaves.left, leaf, rows.left, point, found[visitor])
        else:
            visiting = squared_to_visitors(
                rows, queries, visitors, visiting, index, leaf, worst, found
            )
        for visitor in range(visiting):
            q = visitors[visitor]
            held[q] = collect(keys, q, held[q], found_bits[visitor], index, leaf, worst_bits[q])
            if held[q] > room:
                held[q] = thin(keys, q, held[q], wanted, wanted // 4)
                worst_bits[q] = furthest_bits(keys, q, held[q])
    for q in range(count):
        if held[q] > wanted + 8:
            held[q] = thin(keys, q, held[q], wanted, 8)
        write(keys, q, held[q], -1 if keep_own else queries[q], points, distances)


@compiled
def nearest_in_own_leaf(
    rows: Rows, queries: NDArray[np.int64], index: Index, own: NDArray[np.int64], found: Ints
) -> None:
    """Set ``found`` [m] to the nearest point of *one* leaf of the index, own[i] for query i.

    What there is always time for: a query costs 64 distances.
    """
    squared, rest = np.empty(LEAF, np.float32), np.empty(LEAF, np.float32)
    for i in range(len(queries)):
        squared_to_leaf(rows, queries[i], index.leaves, own[i], squared, rest, FAR)
        begin = own[i] * LEAF
        best = 0
        for j in range(1, min(LEAF, len(index.names) - begin)):
            if squared[j] < squared[best]:
                best = j
        found[i] = index.names[begin + best]


def nearest(
    rows: Rows,
    queries: NDArray[np.int64],
    index: Index,
    k: int,
    *,
    threads: int = 1,
    deadline: Deadline | None = None,
    keep_own: bool = False,
    most: int = EVERY,
) -> tuple[Ints, Floats] | None:
    """Return each query's k nearest points of ``index``, [m, k] names and distances, sorted.

    Queries are positions in ``rows``, best given in spatial order. A query is its own neighbour
    only with ``keep_own``. Where there are fewer than k points, −1 is filled in. None if the
    time ran out. With a limit of leaves, ``most``, points found are near but not always the
    nearest.
    """
    points = np.empty((len(queries), k), np.int32)
    distances = np.empty((len(queries), k), np.float32)

    def run(begin: int) -> None:
        part = slice(begin, begin + LEAF)
        into = points[part], distances[part]
        if len(rows.norm_left) and most == EVERY:
            search_outer(rows, queries[part], index, *into, keep_own)
        else:
            search_run(rows, queries[part], index, *into, keep_own, most)

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
