"""The exact path: FasterPAM on all distances, eager swaps until none of the k (n − k) helps.

Schubert and Rousseeuw, "Fast and eager k-medoids clustering: O(k) runtime improvement of the
PAM, CLARA, and CLARANS algorithms", Information Systems 101 (2021), section 5. Minimises
Σ_j w_j min_k d_jk (Eq. 5 of the paper; w_j counts equal points). For a candidate c and a medoid m,

    change(c, m) = removal(m) + Σ_{j: d_jc < d1_j} w_j (d_jc − d1_j)
                   + Σ_{j: near_j = m} w_j (min(d_jc, d2_j) − d2_j − min(d_jc − d1_j, 0)),

with d1, d2 the distances to the nearest and second medoid and removal(m) = Σ_{near_j = m} w_j
(d2_j − d1_j). The last sum is never positive, so only medoids of points that c comes close to
can beat the medoid that is cheapest to remove: a candidate costs one scan for d_jc < d2_j.
"""

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled, inlined
from fedcore.coreset.medoids import geometry
from fedcore.coreset.medoids.geometry import LEAF, Clusters, Source
from fedcore.coreset.medoids.kernels import member_costs
from fedcore.coreset.medoids.layout import LONG, leaves_of, take_rows
from fedcore.coreset.medoids.problem import Medoids, Over, Problem, Rows
from fedcore.coreset.metric import Floats, Indices

# n up to which a matrix is kept, and for long vectors: there, reading beats computing by more.
STORED, STORED_LONG = 4_096, 16_384
PIECE = 500_000  # distances between two looks at the clock
Bytes = NDArray[np.uint8]
MOST_SWAPS = 100  # a point: never reached, but if rounding led in a circle, this would end it


@compiled
def place(source: Source, point: int, slot: int) -> None:
    """Write ``point`` into a slot of the medoids' leaves."""
    rows, leaves, leaf, lane = source.rows, source.medoids, slot // LEAF, slot % LEAF
    if len(source.labels) > 0:
        source.served[slot] = source.labels[point]
    leaves.left[leaf, :, lane] = rows.left[point]
    if len(rows.norm_left) > 0:
        leaves.right[leaf, :, lane] = rows.right[point]
        leaves.norm_left[leaf, lane] = rows.norm_left[point]
        leaves.norm_right[leaf, lane] = rows.norm_right[point]


@inlined
def charge_removals(state: Clusters, weights: Floats) -> int:
    """Recompute what removing each medoid would cost; return the slot where it is least."""
    state.removal[:] = 0.0
    for point in range(len(state.near)):
        gap = np.float64(state.second_distance[point]) - np.float64(state.near_distance[point])
        state.removal[state.near[point]] += np.float64(weights[point]) * gap
    return int(np.argmin(state.removal))


@inlined
def _best_swap(
    state: Clusters, weights: Floats, row: Floats, cheapest: int, hits: Bytes, near_enough: Indices
) -> tuple[int, float]:
    """Return the slot for a point with distances ``row``, and the change; the rest is scratch."""
    shared = 0.0  # what the candidate saves whichever medoid goes
    count = found = 0
    # First who is near enough, in bytes; then eight of those at a time.
    for j in range(len(row)):
        hits[j] = np.uint8(row[j] < state.second_distance[j])
    eights = hits.view(np.uint64)
    for eight in range(len(eights)):
        if eights[eight] == 0:
            continue
        for j in range(8 * eight, 8 * eight + 8):
            near_enough[found] = j
            found += hits[j]
    for position in range(found):
        j = near_enough[position]
        distance, near = np.float64(row[j]), np.float64(state.near_distance[j])
        weight, slot = np.float64(weights[j]), state.near[j]
        shared += weight * min(distance - near, 0.0)
        before = state.gain[slot]
        after = before + weight * (max(distance, near) - np.float64(state.second_distance[j]))
        state.gain[slot] = after
        state.touched[count] = slot
        count += (before == 0.0) & (after != 0.0)  # with equal distances, there is nothing to add
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
    """Put a point into ``slot``; say how many of ``stale`` [n], who lost a medoid, were filled."""
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

    ``quiet`` before ``first`` did not help; n in a row end all. Gives the next, ``quiet``, swaps.
    """
    count = len(state.near)
    stored = len(source.matrix) > 0
    computed, to_medoids = np.empty(count, np.float32), np.empty(len(state.medoids), np.float32)
    stale, hits = np.empty(count + 1, np.int64), np.zeros(-(-count // 8) * 8, np.uint8)
    swaps = 0
    cheapest = charge_removals(state, weights)
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
            geometry.row_to(source, candidate, source.leaves, source.labels, row)
        slot, change = _best_swap(state, weights, row, cheapest, hits, stale)
        # Rounding alone must not keep the search going: neither that of the sum, nor, where one
        # point lies further away than all others together, that of its own distance.
        if change >= -max(1e-9 * total, 1e-13 * state.removal[slot]):
            continue
        state.slot_of[state.medoids[slot]] = -1
        state.slot_of[candidate] = slot
        state.medoids[slot] = candidate
        if not stored:
            place(source, candidate, slot)
        for position in range(_insert(state, slot, row, stale)):
            geometry.assign(source, state, stale[position], to_medoids)
        cheapest = charge_removals(state, weights)
        total += change
        swaps += 1
        quiet = 0
    return first, quiet, swaps


@compiled
def finish(source: Source, shuffled: Indices) -> tuple[Indices, Indices]:
    """Return sorted medoids and everybody's nearest: ties go to the medoid that comes first."""
    medoids = np.sort(shuffled)
    if len(source.matrix) == 0:
        for slot in range(len(medoids)):
            place(source, medoids[slot], slot)
    return medoids, geometry.clusters_of(source, medoids).near


@compiled
def swap_to_the_end(
    source: Source, start: Indices, weights: Floats
) -> tuple[Indices, Indices, int]:
    """Do all in one call: of tiny problems, each from Python takes a tenth of the time."""
    if len(source.matrix) > 0:
        geometry.fill(source)
    state = geometry.clusters_of(source, start)
    _, _, swaps = sweep(source, state, weights, 0, 0, MOST_SWAPS * len(weights))
    medoids, near = finish(source, state.medoids)
    return medoids, near, swaps


def source_of(rows: Rows, labels: Indices | None, medoids: Indices, *, stored: bool) -> Source:
    """Prepare distances between all points, with these as the first medoids; a matrix is empty."""
    count, leaves = len(rows.left), leaves_of(rows)
    classes = np.empty(0, np.int64) if labels is None else labels
    served = classes[medoids] if len(classes) else classes
    matrix = np.empty((count if stored else 0, count), np.float32)
    # A matrix knows the medoids' distances, too.
    own = leaves if stored else leaves_of(take_rows(rows, medoids))
    return Source(matrix, rows, leaves, own, classes, served)


def solve_exact(problem: Problem, over: Over = None) -> Medoids:
    """Swap from ``problem.start`` until no swap helps, or the time is up."""
    rows, labels, count = problem.rows, problem.labels, len(problem.weights)
    long = rows.left.shape[1] + rows.right.shape[1] > LONG
    # Filling a matrix cannot be cut short.
    stored = over is None and count <= (STORED_LONG if long else STORED)
    if problem.k == 1:
        return _best_alone(problem, over)
    source = source_of(rows, labels, problem.start, stored=stored)
    if over is None:
        medoids, near, swaps = swap_to_the_end(source, problem.start, problem.weights)
        return Medoids(medoids, near, "exact", swaps=swaps)
    state = geometry.clusters_of(source, problem.start)
    first, quiet, swaps, tries = 0, 0, 0, max(1, PIECE // count)
    while quiet < count and swaps <= MOST_SWAPS * count and not over():
        first, quiet, made = sweep(source, state, problem.weights, first, quiet, tries)
        swaps += made
    medoids, near = finish(source, state.medoids)
    return Medoids(medoids, near, "exact", swaps=swaps, finished=quiet >= count)


def _best_alone(problem: Problem, over: Over) -> Medoids:
    """Return the best single medoid by trying all, beginning with the start."""
    rows, count, begin = problem.rows, len(problem.weights), 0
    costs, size = np.full(count, np.inf), max(1, PIECE // count)
    given = rows, leaves_of(rows), problem.weights, np.array([0, count])
    if problem.warm:
        member_costs(*given, int(problem.start[0]), 1, costs)
    while begin < count and not (over is not None and over()):
        member_costs(*given, begin, size, costs)
        begin += size
    best = np.array([int(np.argmin(costs))])
    return Medoids(best, np.zeros(count, np.int64), "exact", finished=begin >= count)
