"""FasterPAM without the matrix: distances of a candidate are computed when it is looked at.

For few medoids among many points, neighbour lists do not reach and n² numbers do not fit. A pass
costs n² distances, as many as filling the matrix once, and the memory is O(n): the same moves
as ``exact``, hence the same answer.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled
from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.exact import (
    Clusters,
    Indices,
    assign,
    best_swap,
    charge_removals,
    clusters_of,
    insert,
)
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
from fedcore.coreset.medoids.hurry import solve_hurried
from fedcore.coreset.medoids.solution import Problem, Solution


@compiled
def row_of(
    rows: Rows, point: int, leaves: Leaves, labels: Indices, others: Indices, out: Floats
) -> None:
    """Set ``out`` [m] to the distances between ``point`` and the m points of ``leaves``.

    ``others`` are the labels of those; no labels at all means that none differ. Points of
    another label are further than any sum of other distances.
    """
    squared, rest = np.empty(LEAF, np.float32), np.empty(LEAF, np.float32)
    for leaf in range(leaves.left.shape[0]):
        squared_to_leaf(rows, point, leaves, leaf, squared, rest, FAR)
        begin = leaf * LEAF
        for j in range(min(LEAF, len(out) - begin)):
            out[begin + j] = np.sqrt(squared[j])
    if len(labels) > 0:
        barrier = np.float32(1e4) * np.float32(len(labels))
        for j in range(len(out)):
            if others[j] != labels[point]:
                out[j] = barrier


@compiled
def _place(rows: Rows, point: int, leaves: Leaves, slot: int) -> None:
    """Write ``point`` into a slot of the medoids' leaves."""
    leaf, lane = slot // LEAF, slot % LEAF
    for t in range(rows.left.shape[1]):
        leaves.left[leaf, t, lane] = rows.left[point, t]
    for t in range(rows.right.shape[1]):
        leaves.right[leaf, t, lane] = rows.right[point, t]
    if len(rows.norm_left) > 0:
        leaves.norm_left[leaf, lane] = rows.norm_left[point]
        leaves.norm_right[leaf, lane] = rows.norm_right[point]


@compiled
def assign_all(
    rows: Rows, medoids: Leaves, labels: Indices, served: Indices, state: Clusters, weights: Floats
) -> None:
    """Find the two nearest medoids of every point."""
    to_medoids = np.empty(len(state.medoids), np.float32)
    for point in range(len(state.near)):
        row_of(rows, point, medoids, labels, served, to_medoids)
        assign(state, point, to_medoids)
    charge_removals(state, weights)


@compiled
def sweep(
    rows: Rows,
    leaves: Leaves,
    medoids: Leaves,
    labels: Indices,
    served: Indices,
    state: Clusters,
    weights: Floats,
    first: int,
    quiet: int,
    tries: int,
) -> tuple[int, int, int]:
    """Try up to ``tries`` candidates, as ``exact.sweep`` does, without a matrix."""
    count = len(state.near)
    row, to_medoids = np.empty(count, np.float32), np.empty(len(state.medoids), np.float32)
    stale = np.empty(count, np.int64)
    swaps = 0
    cheapest = int(np.argmin(state.removal))
    total = 0.0
    for j in range(count):
        total += np.float64(weights[j]) * np.float64(state.near_distance[j])
    for _ in range(tries):
        if quiet >= count:
            break
        candidate = first
        first = first + 1 if first + 1 < count else 0
        quiet += 1
        if state.slot_of[candidate] >= 0:
            continue
        row_of(rows, candidate, leaves, labels, labels, row)
        slot, change = best_swap(state, weights, row, cheapest)
        if change >= -1e-9 * total:
            continue
        state.slot_of[state.medoids[slot]] = -1
        state.slot_of[candidate] = slot
        state.medoids[slot] = candidate
        _place(rows, candidate, medoids, slot)
        if len(labels) > 0:
            served[slot] = labels[candidate]
        for position in range(insert(state, slot, row, stale)):
            row_of(rows, stale[position], medoids, labels, served, to_medoids)
            assign(state, stale[position], to_medoids)
        charge_removals(state, weights)
        cheapest = int(np.argmin(state.removal))
        total += change
        swaps += 1
        quiet = 0
    return first, quiet, swaps


@compiled
def cost_as_only_medoid(
    rows: Rows, leaves: Leaves, weights: Floats, begin: int, out: NDArray[np.float64]
) -> None:
    """Set ``out`` [m] to Σ_j w_j d(j, c) for the candidates c = begin .. begin + m."""
    row, labels = np.empty(len(weights), np.float32), np.empty(0, np.int64)
    for position in range(len(out)):
        row_of(rows, begin + position, leaves, labels, labels, row)
        total = 0.0
        for j in range(len(row)):
            total += np.float64(weights[j]) * np.float64(row[j])
        out[position] = total


def solve_streamed(problem: Problem, deadline: Deadline) -> Solution:
    """Swap from ``problem.start`` until no swap helps, or the time is up."""
    rows, weights = problem.rows, problem.weights
    leaves, count = leaves_of(rows), len(weights)
    if problem.k == 1:
        return _one(rows, leaves, weights, deadline)
    labels = np.empty(0, np.int64) if problem.labels is None else problem.labels
    start = problem.start
    assigning = 0.0
    if deadline.moment is not None:
        assigning = _time_to_assign(rows, start, labels)
        # Everybody's medoids are needed before the first swap and after the last.
        if 2.5 * assigning > deadline.left():
            return solve_hurried(problem, deadline)
    work = deadline.earlier(assigning)
    served = labels[start] if len(labels) else labels
    medoids, state = leaves_of(take_rows(rows, start)), clusters_of(count, start)
    assign_all(rows, medoids, labels, served, state, weights)
    first, quiet, swaps = 0, 0, 0
    tries = max(1, 500_000 // count)
    while quiet < count and not work.over():
        first, quiet, made = sweep(
            rows, leaves, medoids, labels, served, state, weights, first, quiet, tries
        )
        swaps += made
    # Slots have been shuffled by swaps; ties must go to the medoid that comes first.
    order = np.argsort(state.medoids)
    final = clusters_of(count, state.medoids[order])
    served = served[order] if len(labels) else labels
    assign_all(rows, leaves_of(take_rows(rows, final.medoids)), labels, served, final, weights)
    return Solution(final.medoids, final.near, 1.0, swaps, "exact", bool(quiet >= count))


def _time_to_assign(rows: Rows, medoids: Indices, labels: Indices) -> float:
    """Estimate, from a few points, the seconds it takes to find everybody's medoids."""
    leaves, state = leaves_of(take_rows(rows, medoids)), clusters_of(len(rows.left), medoids)
    served = labels[medoids] if len(labels) else labels
    seconds = 0.0
    for sample in (1, min(len(rows.left), 128)):  # compiles, if it must; then measures
        few = state._replace(near=state.near[:sample])
        begin = time.monotonic()
        assign_all(rows, leaves, labels, served, few, np.ones(sample, np.float32))
        seconds = (time.monotonic() - begin) / sample
    return 1.2 * seconds * len(rows.left)


def _one(rows: Rows, leaves: Leaves, weights: Floats, deadline: Deadline) -> Solution:
    """Return the best single medoid by trying all."""
    count = len(weights)
    costs = np.full(count, np.inf)
    done = 0
    for begin, end in deadline.pieces(count, max(1, 2_000_000 // count)):
        cost_as_only_medoid(rows, leaves, weights, begin, costs[begin:end])
        done = end
    best = np.array([int(np.argmin(costs))])
    return Solution(best, np.zeros(count, np.int64), 1.0, 0, "exact", done == count)
