"""FasterPAM on a full distance matrix: eager swaps until none of the k (n − k) helps.

Schubert and Rousseeuw, "Fast and eager k-medoids clustering: O(k) runtime improvement of the
PAM, CLARA, and CLARANS algorithms", Information Systems 101 (2021), section 5. Minimises
Σ_j w_j min_k d_jk (Eq. 5 of the paper; w_j counts equal points). For a candidate c and a medoid m,

    change(c, m) = removal(m) + Σ_{j: d_jc < d1_j} w_j (d_jc − d1_j)
                   + Σ_{j: near_j = m} w_j (min(d_jc, d2_j) − d2_j − min(d_jc − d1_j, 0)),

with d1, d2 the distances to the nearest and second medoid and removal(m) = Σ_{near_j = m} w_j
(d2_j − d1_j). The last sum is never positive, so only medoids of points that c comes close to
can beat the medoid that is cheapest to remove: a candidate costs one scan for d_jc < d2_j.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled
from fedcore.coreset.medoids.geometry import Floats

Indices = NDArray[np.int64]
Doubles = NDArray[np.float64]

FAR = 1e30  # further than any distance; stands in for "no second medoid"
CHUNK = 32


class Clusters(NamedTuple):
    """Who serves whom; medoids live in slots 0 .. k − 1."""

    medoids: Indices  # [k] the points in the slots
    slot_of: Indices  # [n] a medoid's slot, −1 for other points
    near: Indices  # [n] slot of the nearest medoid
    second: Indices  # [n] slot of the second nearest, −1 if k = 1
    near_distance: Floats  # [n]
    second_distance: Floats  # [n] FAR if k = 1
    removal: Doubles  # [k] what removing a medoid costs
    gain: Doubles  # [k] scratch: all 0 between candidates
    touched: Indices  # [k] scratch


def clusters_of(count: int, medoids: NDArray[np.integer]) -> Clusters:
    """Return an empty state with these medoids; ``assign_all`` fills it."""
    k = len(medoids)
    slot_of = np.full(count, -1, np.int64)
    slot_of[medoids] = np.arange(k)
    return Clusters(
        np.array(medoids, np.int64),
        slot_of,
        np.zeros(count, np.int64),
        np.full(count, -1, np.int64),
        np.zeros(count, np.float32),
        np.zeros(count, np.float32),
        np.zeros(k, np.float64),
        np.zeros(k, np.float64),
        np.zeros(k, np.int64),
    )


@compiled
def assign(state: Clusters, point: int, to_medoids: Floats) -> None:
    """Find the two nearest medoids of ``point``, given its distances [k] to all of them."""
    near, second = -1, -1
    near_distance, second_distance = np.float32(FAR), np.float32(FAR)
    for slot in range(len(to_medoids)):
        distance = to_medoids[slot]
        if distance < near_distance:
            near, second, near_distance, second_distance = slot, near, distance, near_distance
        elif distance < second_distance:
            second, second_distance = slot, distance
    state.near[point], state.second[point] = near, second
    state.near_distance[point], state.second_distance[point] = near_distance, second_distance


@compiled
def charge_removals(state: Clusters, weights: Floats) -> None:
    """Recompute what removing each medoid would cost."""
    state.removal[:] = 0.0
    for point in range(len(state.near)):
        gap = np.float64(state.second_distance[point]) - np.float64(state.near_distance[point])
        state.removal[state.near[point]] += np.float64(weights[point]) * gap


@compiled
def best_swap(state: Clusters, weights: Floats, row: Floats, cheapest: int) -> tuple[int, float]:
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


@compiled
def insert(state: Clusters, slot: int, row: Floats, stale: Indices) -> int:
    """Put a point with distances ``row`` into ``slot``; list points that lost a medoid.

    Returns how many of ``stale`` [n] were filled: those need ``assign``.
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
def assign_all(distances: Floats, state: Clusters, weights: Floats) -> None:
    """Find the two nearest medoids of every point in a distance matrix [n, n]."""
    to_medoids = np.empty(len(state.medoids), np.float32)
    for point in range(len(distances)):
        _assign_from(distances, state, point, to_medoids)
    charge_removals(state, weights)


@compiled
def _assign_from(distances: Floats, state: Clusters, point: int, to_medoids: Floats) -> None:
    for slot in range(len(state.medoids)):
        to_medoids[slot] = distances[point, state.medoids[slot]]
    assign(state, point, to_medoids)


@compiled
def sweep(
    distances: Floats, state: Clusters, weights: Floats, first: int, quiet: int, tries: int
) -> tuple[int, int, int]:
    """Try up to ``tries`` candidates from ``first`` on, swapping whenever that helps.

    ``quiet`` candidates before ``first`` are known not to help; n of them in a row end the
    search. Returns the next candidate, the new ``quiet`` and the swaps made.
    """
    count, k = len(distances), len(state.medoids)
    to_medoids = np.empty(k, np.float32)
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
        slot, change = best_swap(state, weights, distances[candidate], cheapest)
        # Rounding alone must not keep the search going.
        if change >= -1e-9 * total:
            continue
        state.slot_of[state.medoids[slot]] = -1
        state.slot_of[candidate] = slot
        state.medoids[slot] = candidate
        for position in range(insert(state, slot, distances[candidate], stale)):
            _assign_from(distances, state, stale[position], to_medoids)
        charge_removals(state, weights)
        cheapest = int(np.argmin(state.removal))
        total += change
        swaps += 1
        quiet = 0
    return first, quiet, swaps
