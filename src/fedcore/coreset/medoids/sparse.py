"""The sparse path: k-medoids on neighbour lists, memory O(n K) instead of O(n²).

Because k is a sizeable part of n, a medoid serves a few near points, and swaps need only each
point's K nearest. Start with all points as medoids and drop the cheapest until k are left; swap
until no swap helps; give points whose list holds fewer than two medoids their nearest medoids as
extra entries, and swap again. The last step is what trained gradients need: thousands of them
crowd around 0, and plain neighbour lists of the others do not reach out of their surroundings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.geometry import Floats, Rows, take_rows
from fedcore.coreset.medoids.lists import (
    EXTRAS,
    Lists,
    add_extras,
    fill_lists,
    reversed_lists,
)
from fedcore.coreset.medoids.moves import drop, sweep
from fedcore.coreset.medoids.neighbours import Ints, index_of, nearest
from fedcore.coreset.medoids.solution import Problem, Solution
from fedcore.coreset.medoids.spatial import spatial_order
from fedcore.coreset.medoids.state import State, new_state, settle

ROUNDS = 4  # of swapping and repairing
REPAIR = 8  # nearest medoids given to a point that knows too few


@dataclass(frozen=True, slots=True)
class Layout:
    """The problem in spatial order, labels one after the other."""

    order: NDArray[np.int64]  # [n] which point of the problem stands where
    rows: Rows
    weights: Floats
    segments: tuple[tuple[int, int], ...]  # where a label begins and ends
    far: float  # no less than any distance
    threads: int


def list_length(count: int, k: int) -> int:
    """Return K: room for the second medoid of most points, which is some 3 n / k away."""
    return min(max(16, -(-(3 * count // k + 8) // 8) * 8), 128)


def layout_of(problem: Problem) -> Layout:
    """Sort the points so that runs of 64 lie together, inside their label if there are labels."""
    rows, labels = problem.rows, problem.labels
    if labels is None:
        parts = [np.arange(len(rows.left))]
    else:
        parts = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    order = np.concatenate([part[spatial_order(rows.left[part])] for part in parts])
    ends = np.cumsum([len(part) for part in parts]).tolist()
    norms = np.einsum("ij,ij->i", rows.left, rows.left)
    if rows.right.shape[1]:
        norms = norms * rows.norm_right
    far = 2.0 * float(np.sqrt(norms.max())) * 1.001 + 1e-30
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


def build_lists(layout: Layout, length: int, deadline: Deadline) -> Lists | None:
    """Return every point's list of ``length`` entries, or None if the time ran out."""
    count = len(layout.order)
    width = min(length, count) + EXTRAS
    lists = Lists(
        np.empty((count, width), np.int32),
        np.empty((count, width), np.float32),
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty(count, np.float32),
    )
    for begin, end in layout.segments:
        inside = np.arange(begin, end)
        found = nearest(
            layout.rows,
            inside,
            index_of(layout.rows, inside),
            min(length, count) - 1,
            threads=layout.threads,
            deadline=deadline,
        )
        if found is None:
            return None
        fill_lists(lists, begin, found[0], found[1], end - begin <= length, layout.far)
    return lists


def nearest_medoids(
    layout: Layout, state: State, queries: NDArray[np.int64], number: int
) -> tuple[Ints, Floats]:
    """Return the nearest medoids of ``queries`` (ascending) among those of their own label."""
    points = np.full((len(queries), number), -1, np.int32)
    distances = np.zeros((len(queries), number), np.float32)
    for begin, end in layout.segments:
        low, high = np.searchsorted(queries, [begin, end])
        medoids = begin + np.flatnonzero(state.chosen[begin:end])
        if low == high or not len(medoids):
            continue
        index = index_of(layout.rows, medoids)
        found = nearest(layout.rows, queries[low:high], index, number, threads=layout.threads)
        assert found is not None  # there was no deadline
        points[low:high], distances[low:high] = found
    return points, distances


def repair(layout: Layout, lists: Lists, state: State, poor: NDArray[np.int64]) -> None:
    """Give the points ``poor`` their nearest medoids as extra entries."""
    points, distances = nearest_medoids(layout, state, poor, REPAIR)
    add_extras(lists, poor, points, distances)


def uncertified(lists: Lists, state: State) -> NDArray[np.int64]:
    """Return the points without two medoids inside the radius of their list."""
    known = (state.second >= 0) & (state.second_distance <= lists.radius)
    complete = lists.radius >= state.far[0]
    return np.flatnonzero(~(known | complete))


def thin(layout: Layout, lists: Lists, state: State, k: int, deadline: Deadline) -> None:
    """Drop medoids until k are left, repairing lists as medoids grow rare."""
    count = len(layout.order)
    left = int(state.chosen.sum())
    reverse = reversed_lists(lists)
    length = int(lists.exact.max())
    limit = layout.far / 2
    # While a list holds six medoids on average, few points run short; after a repair, halve.
    target = max(k, 6 * count // length)
    while left > k:
        if left > target:
            dropped = drop(lists, reverse, state, left - target, limit, left)
            left -= dropped
            limit = layout.far / 2 if dropped else np.inf
        if left <= k:
            return
        poor = uncertified(lists, state)
        repair(layout, lists, state, poor)
        reverse = reversed_lists(lists)
        settle(lists, state)
        target = max(k, min(target, left) // 2)


def solve_sparse(problem: Problem, deadline: Deadline) -> Solution:
    """Drop, swap, repair, repeat."""
    layout = layout_of(problem)
    count, k = len(layout.order), problem.k
    lists = build_lists(layout, list_length(count, k), deadline)
    assert lists is not None
    chosen = np.ones(count, np.bool_)
    if problem.warm:
        chosen = np.zeros(len(chosen), np.bool_)
        chosen[np.argsort(layout.order)[problem.start]] = True
    state = new_state(chosen, layout.weights, layout.far)
    settle(lists, state)
    thin(layout, lists, state, k, deadline)
    swaps = 0
    poor = uncertified(lists, state)
    for turn in range(ROUNDS):
        if len(poor):
            repair(layout, lists, state, poor)
        total = settle(lists, state)
        reverse = reversed_lists(lists)
        state.stale[:] = True
        made = _converge(lists, reverse, state, 1e-9 * total, deadline)
        swaps += made
        poor = uncertified(lists, state)
        if not made and turn or not len(poor):
            break
    settle(lists, state)
    return _solution(layout, lists, state, poor, swaps)


def _converge(lists, reverse, state, least, deadline):
    first, swaps = 0, 0
    count = len(state.chosen)
    while True:
        state.stale[:] = True
        before = swaps
        quiet = 0
        while quiet < count:
            first, quiet, made = sweep(lists, reverse, state, first, quiet, count, least)
            swaps += made
        if swaps == before:
            return swaps


def _solution(layout, lists, state, poor, swaps):
    count = len(layout.order)
    near = state.near.astype(np.int64)
    unsure = np.flatnonzero((state.near < 0) | (state.near_distance > lists.radius))
    if len(unsure):
        near[unsure] = nearest_medoids_one(layout, state, unsure)
    medoids = np.flatnonzero(state.chosen)
    owner = np.empty(count, np.int64)
    owner[layout.order] = layout.order[near]
    names = np.sort(layout.order[medoids])
    return Solution(
        names, np.searchsorted(names, owner), 1.0 - len(poor) / count, swaps, "sparse", True
    )


def nearest_medoids_one(layout, state, unsure):
    return nearest_medoids(layout, state, unsure, 1)[0][:, 0].astype(np.int64)
