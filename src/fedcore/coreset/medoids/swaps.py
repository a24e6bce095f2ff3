"""FasterPAM on all distances: eager swaps until none of the k (n − k) helps.

Schubert and Rousseeuw, "Fast and eager k-medoids clustering: O(k) runtime improvement of the
PAM, CLARA, and CLARANS algorithms", Information Systems 101 (2021), section 5. Minimises
Σ_j w_j min_k d_jk (Eq. 5 of the paper; w_j counts equal points). For a candidate c and a medoid m,

    change(c, m) = removal(m) + Σ_{j: d_jc < d1_j} w_j (d_jc − d1_j)
                   + Σ_{j: near_j = m} w_j (min(d_jc, d2_j) − d2_j − min(d_jc − d1_j, 0)),

with d1, d2 the distances to the nearest and second medoid and removal(m) = Σ_{near_j = m} w_j
(d2_j − d1_j). The last sum is never positive, so only medoids of points that c comes close to
can beat the medoid that is cheapest to remove: a candidate costs one scan for d_jc < d2_j.

Distances of a candidate come from a matrix, or, where n² numbers are too many, are computed when
it is looked at: the same numbers, hence the same swaps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled, inlined
from fedcore.coreset.medoids.geometry import LEAF, Floats, Leaves, Rows, squared_to_leaf

Indices = NDArray[np.int64]
Doubles = NDArray[np.float64]

NONE = 1e30  # further than any distance; stands in for "no second medoid"
CHUNK = 32


class Source(NamedTuple):
    """Where distances come from: a matrix, or points if there is none."""

    matrix: Floats  # [n, n], or no rows at all
    rows: Rows
    leaves: Leaves  # of all points
    medoids: Leaves  # of the medoids, slot by slot
    labels: Indices  # [n]; none at all means that none differ
    served: Indices  # [k] labels of the medoids


class Clusters(NamedTuple):
    """Who serves whom; medoids live in slots 0 .. k − 1."""

    medoids: Indices  # [k] the points in the slots
    slot_of: Indices  # [n] a medoid's slot, −1 for other points
    near: Indices  # [n] slot of the nearest medoid
    second: Indices  # [n] slot of the second nearest, −1 if k = 1
    near_distance: Floats  # [n]
    second_distance: Floats  # [n] NONE if k = 1
    removal: Doubles  # [k] what removing a medoid costs
    gain: Doubles  # [k] scratch: all 0 between candidates
    touched: Indices  # [k] scratch


@compiled
def fill(source: Source, matrix: Floats) -> Floats:
    """Compute all n² distances."""
    for point in range(len(matrix)):
        row_to(source, point, source.leaves, source.labels, matrix[point])
    return matrix


@compiled
def row_to(source: Source, point: int, leaves: Leaves, others: Indices, out: Floats) -> None:
    """Set ``out`` [m] to the distances between ``point`` and the m points of ``leaves``.

    ``others`` are the labels of those. Points of another label are further than any sum of other
    distances, which are at most 2 √(c d) for rows scaled to 1.
    """
    squared = np.empty(LEAF, np.float32)
    for leaf in range(leaves.left.shape[0]):
        squared_to_leaf(source.rows, point, leaves, leaf, squared)
        begin = leaf * LEAF
        for j in range(min(LEAF, len(out) - begin)):
            out[begin + j] = np.sqrt(squared[j])
    if len(source.labels) > 0:
        barrier = np.float32(1e4) * np.float32(len(source.labels))
        for j in range(len(out)):
            if others[j] != source.labels[point]:
                out[j] = barrier


@compiled
def _place(rows: Rows, point: int, leaves: Leaves, slot: int) -> None:
    """Write ``point`` into a slot of the medoids' leaves."""
    leaf, lane = slot // LEAF, slot % LEAF
    leaves.left[leaf, :, lane] = rows.left[point]
    if len(rows.norm_left) > 0:
        leaves.right[leaf, :, lane] = rows.right[point]
        leaves.norm_left[leaf, lane] = rows.norm_left[point]
        leaves.norm_right[leaf, lane] = rows.norm_right[point]


@inlined
def _assign(source: Source, state: Clusters, point: int, to_medoids: Floats) -> None:
    """Find the two nearest medoids of ``point``; ``to_medoids`` [k] is scratch."""
    if len(source.matrix) > 0:
        for slot in range(len(to_medoids)):
            to_medoids[slot] = source.matrix[point, state.medoids[slot]]
    else:
        row_to(source, point, source.medoids, source.served, to_medoids)
    near, second = -1, -1
    near_distance, second_distance = np.float32(NONE), np.float32(NONE)
    for slot in range(len(to_medoids)):
        distance = to_medoids[slot]
        if distance < near_distance:
            near, second, near_distance, second_distance = slot, near, distance, near_distance
        elif distance < second_distance:
            second, second_distance = slot, distance
    state.near[point], state.second[point] = near, second
    state.near_distance[point], state.second_distance[point] = near_distance, second_distance


@inlined
def _charge_removals(state: Clusters, weights: Floats) -> int:
    """Recompute what removing each medoid would cost; return the slot where it is least."""
    state.removal[:] = 0.0
    for point in range(len(state.near)):
        gap = np.float64(state.second_distance[point]) - np.float64(state.near_distance[point])
        state.removal[state.near[point]] += np.float64(weights[point]) * gap
    cheapest = 0
    for slot in range(1, len(state.removal)):
        if state.removal[slot] < state.removal[cheapest]:
            cheapest = slot
    return cheapest


@compiled
def assign_all(source: Source, state: Clusters, weights: Floats) -> None:
    """Find the two nearest medoids of every point."""
    to_medoids = np.empty(len(state.medoids), np.float32)
    for point in range(len(state.near)):
        _assign(source, state, point, to_medoids)
    _charge_removals(state, weights)


@inlined
def _best_swap(state: Clusters, weights: Floats, row: Floats, cheapest: int) -> tuple[int, float]:
    """Return the slot that the point with distances ``row`` should take, and the change.

    ``cheapest`` is the slot whose removal costs least.
    """
    shared = 0.0  # what the candidate saves whichever medoid goes
    count = 0
    size = len(row)
    for begin in range(0, size, CHUNK):
        end = min(begin + CHUNK, size)
        hits = 0
        for j in range(begin, end):
            hits += row[j] < state.second_distance[j]
        if hits == 0:
            continue
        for j in range(begin, end):
            distance = np.float64(row[j])
            second = np.float64(state.second_distance[j])
            if distance >= second:
                continue
            weight = np.float64(weights[j])
            near = np.float64(state.near_distance[j])
            slot = state.near[j]
            if state.gain[slot] == 0.0:
                state.touched[count] = slot
                count += 1
            if distance < near:
                shared += weight * (distance - near)
                state.gain[slot] += weight * (near - second)
            else:
                state.gain[slot] += weight * (distance - second)
            if state.gain[slot] == 0.0:  # equal distances: listed, yet nothing to add
                count -= 1
    best, change = cheapest, state.removal[cheapest]
    for position in range(count):
        slot = state.touched[position]
        value = state.removal[slot] + state.gain[slot]
        state.gain[slot] = 0.0
        if value < change or (value == change and slot < best):
            best, change = slot, value
    return best, change + shared


@inlined
def _insert(state: Clusters, slot: int, row: Floats, stale: Indices) -> int:
    """Put a point with distances ``row`` into ``slot``; list points that lost a medoid.

    Returns how many of ``stale`` [n] were filled: those need ``_assign``.
    """
    count = 0
    for j in range(len(row)):
        distance = row[j]
        if state.near[j] == slot or state.second[j] == slot:
            stale[count] = j
            count += 1
        elif distance < state.near_distance[j]:
            state.second[j], state.second_distance[j] = state.near[j], state.near_distance[j]
            state.near[j], state.near_distance[j] = slot, distance
        elif distance < state.second_distance[j]:
            state.second[j], state.second_distance[j] = slot, distance
    return count


@compiled
def sweep(
    source: Source, state: Clusters, weights: Floats, first: int, quiet: int, tries: int
) -> tuple[int, int, int]:
    """Try up to ``tries`` candidates from ``first`` on, swapping whenever that helps.

    ``quiet`` candidates before ``first`` are known not to help; n of them in a row end the
    search. Returns the next candidate, the new ``quiet`` and the swaps made.
    """
    count = len(state.near)
    stored = len(source.matrix) > 0
    computed, to_medoids = np.empty(count, np.float32), np.empty(len(state.medoids), np.float32)
    stale = np.empty(count, np.int64)
    swaps = 0
    cheapest = _charge_removals(state, weights)
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
        row = source.matrix[candidate] if stored else computed
        if not stored:
            row_to(source, candidate, source.leaves, source.labels, row)
        slot, change = _best_swap(state, weights, row, cheapest)
        # Rounding alone must not keep the search going.
        if change >= -1e-9 * total:
            continue
        state.slot_of[state.medoids[slot]] = -1
        state.slot_of[candidate] = slot
        state.medoids[slot] = candidate
        if not stored:
            _place(source.rows, candidate, source.medoids, slot)
            if len(source.labels) > 0:
                source.served[slot] = source.labels[candidate]
        for position in range(_insert(state, slot, row, stale)):
            _assign(source, state, stale[position], to_medoids)
        cheapest = _charge_removals(state, weights)
        total += change
        swaps += 1
        quiet = 0
    return first, quiet, swaps


@compiled
def costs_alone(source: Source, weights: Floats, begin: int, out: Doubles) -> None:
    """Set ``out`` [m] to Σ_j w_j d(j, c), the objective of c = begin .. begin + m as only medoid."""
    row = np.empty(len(weights), np.float32)
    for position in range(len(out)):
        row_to(source, begin + position, source.leaves, source.labels, row)
        total = 0.0
        for j in range(len(row)):
            total += np.float64(weights[j]) * np.float64(row[j])
        out[position] = total
