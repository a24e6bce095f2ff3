"""Moves on neighbour lists: drop the cheapest medoid, swap one for a better point.

Σ_j w_j d1_j, with d1_j the distance to the nearest medoid in j's list, is never less than the
objective (Eq. 5 of the paper). removal(m) = Σ_{near_j = m} w_j (d2_j − d1_j) is kept for every
medoid, and a tournament tree over it says which is cheapest to remove. The swap is FasterPAM's
(``exact``) on what lists know: if every point has two medoids inside the radius up to which its
list is complete, the change computed here *is* that on all distances: the certificate.
"""

from typing import NamedTuple

import numpy as np

from fedcore.compiled import compiled, inlined
from fedcore.coreset.metric import Doubles, Floats, Indices, Ints, Places

EXTRAS = 8  # medoids behind the exact part of a list that holds too few
NEVER = 1e300  # the removal cost of what is not a medoid


class Lists(NamedTuple):
    """Sorted neighbour lists: each point itself, its K − 1 nearest, then medoids a repair found."""

    points: Ints  # [n, K + extras]
    distances: Floats  # [n, K + extras]
    exact: Ints  # [n] how many entries are the nearest without a gap
    size: Ints  # [n] how many entries there are
    radius: Floats  # [n] up to where the list is complete; beyond there may be gaps


class Reverse(NamedTuple):
    """For each point, those that have it in their list: points[offsets[i] : offsets[i + 1]]."""

    offsets: Indices  # [n + 1]
    points: Ints
    distances: Floats


# The exact parts of lists never change, extras do at every repair: each has a table of its own.
Tables = tuple[Reverse, Reverse]


class State(NamedTuple):
    """Medoids and assignments; a point that knows no (second) medoid has −1 at distance far."""

    chosen: Places  # [n]
    near: Ints  # [n]
    second: Ints  # [n]
    near_distance: Floats  # [n]
    second_distance: Floats  # [n]
    weights: Floats  # [n]
    removal: Doubles  # [p], p >= n a power of two
    tree: Ints  # [2 p] winners; the root, at 1, is the cheapest medoid
    stale: Places  # [n] candidates to evaluate again
    gain: Doubles  # [n] scratch, all 0 between candidates
    touched: Ints  # [n] scratch
    hits: Indices  # [n + 1] scratch
    far: Floats  # [1] no less than any distance


@compiled
def add_extras(lists: Lists, rows: Indices, found: Ints, distances: Floats) -> None:
    """Put medoids [m, EXTRAS], sorted, or −1, behind the exact part of the lists of ``rows``."""
    for row in range(len(rows)):
        point = rows[row]
        exact = size = lists.exact[point]
        for extra in range(found.shape[1]):
            name, distance = found[row, extra], distances[row, extra]
            listed = name < 0 or distance < lists.distances[point, exact - 1]
            for position in range(exact):
                listed |= lists.points[point, position] == name
            if not listed:
                lists.points[point, size], lists.distances[point, size] = name, distance
                size += 1
        lists.size[point] = size


@compiled
def who_lists(lists: Lists, begins: Ints, ends: Ints) -> Reverse:
    """Return who has each point between places begins[j] and ends[j] of its list."""
    count = len(lists.size)
    offsets = np.zeros(count + 1, np.int64)
    for point in range(count):
        for position in range(begins[point], ends[point]):
            offsets[lists.points[point, position] + 1] += 1
    offsets = np.cumsum(offsets)
    points = np.empty(offsets[count], np.int32)
    distances = np.empty(offsets[count], np.float32)
    free = offsets[:count].copy()
    for point in range(count):
        for position in range(begins[point], ends[point]):
            other = lists.points[point, position]
            points[free[other]] = point
            distances[free[other]] = lists.distances[point, position]
            free[other] += 1
    return Reverse(offsets, points, distances)


@inlined
def _locate(lists: Lists, state: State, point: int) -> None:
    """Find the two nearest medoids in the point's list."""
    near, second = -1, -1
    near_distance = second_distance = state.far[0]
    for position in range(lists.size[point]):
        other = lists.points[point, position]
        if state.chosen[other]:
            if near < 0:
                near, near_distance = other, lists.distances[point, position]
            else:
                second, second_distance = other, lists.distances[point, position]
                break
    state.near[point], state.second[point] = near, second
    state.near_distance[point], state.second_distance[point] = near_distance, second_distance


@inlined
def _charge(state: State, point: int, sign: float) -> None:
    """Add (or take back) the point's share of what removing its nearest medoid costs."""
    near = state.near[point]
    if near >= 0:
        gap = np.float64(state.second_distance[point]) - np.float64(state.near_distance[point])
        state.removal[near] += sign * np.float64(state.weights[point]) * gap


@inlined
def _replay(state: State, medoid: int) -> None:
    """Play the matches above a medoid again after its removal cost has changed."""
    node = (len(state.removal) + medoid) >> 1
    while node >= 1:
        left, right = state.tree[2 * node], state.tree[2 * node + 1]
        winner = left if state.removal[left] <= state.removal[right] else right
        if winner == state.tree[node] and winner != medoid:
            break  # the medoid lost here before and loses now
        state.tree[node] = winner
        node >>= 1


@compiled
def settle(lists: Lists, state: State) -> float:
    """Compute everything from ``state.chosen``; returns Σ_j w_j d1_j."""
    count, leaves = len(state.chosen), len(state.removal)
    total = 0.0
    for slot in range(leaves):
        state.removal[slot] = 0.0 if slot < count and state.chosen[slot] else NEVER
        state.tree[leaves + slot] = slot
    for point in range(count):
        _locate(lists, state, point)
        _charge(state, point, 1.0)
        total += np.float64(state.weights[point]) * np.float64(state.near_distance[point])
    for node in range(leaves - 1, 0, -1):
        left, right = state.tree[2 * node], state.tree[2 * node + 1]
        state.tree[node] = left if state.removal[left] <= state.removal[right] else right
    return total


@inlined
def _wake(lists: Lists, state: State, point: int, reach: float) -> None:
    """Mark the candidates whose change depends on ``point``: its neighbours within ``reach``."""
    for position in range(lists.size[point]):
        if lists.distances[point, position] >= reach and position > 0:
            break
        state.stale[lists.points[point, position]] = True


@compiled
def _leave(lists: Lists, reverse: Tables, state: State, medoid: int) -> None:
    """Make ``medoid`` an ordinary point: whoever it served looks for another."""
    state.chosen[medoid] = False
    for part in range(2):
        offsets, points, _ = reverse[part]
        for entry in range(offsets[medoid], offsets[medoid + 1]):
            point = points[entry]
            near = state.near[point]
            if near != medoid and state.second[point] != medoid:
                continue
            if near != medoid:
                _charge(state, point, -1.0)
            _locate(lists, state, point)
            _charge(state, point, 1.0)
            _wake(lists, state, point, state.second_distance[point])
            if near != medoid:
                _replay(state, near)
            if state.near[point] >= 0 and state.near[point] != near:
                _replay(state, state.near[point])
    state.removal[medoid] = NEVER
    _replay(state, medoid)


@compiled
def _enter(lists: Lists, reverse: Tables, state: State, candidate: int) -> None:
    """Make ``candidate`` a medoid: whoever has it near enough is served by it."""
    state.chosen[candidate] = True
    state.removal[candidate] = 0.0
    for part in range(2):
        offsets, points, distances = reverse[part]
        for entry in range(offsets[candidate], offsets[candidate + 1]):
            point, distance = points[entry], distances[entry]
            reach = state.second_distance[point]
            if distance >= reach and point != candidate:
                continue
            near = state.near[point]
            _charge(state, point, -1.0)
            if distance < state.near_distance[point] or point == candidate:
                state.second[point] = near
                state.second_distance[point] = state.near_distance[point]
                state.near[point], state.near_distance[point] = candidate, distance
            else:
                state.second[point], state.second_distance[point] = candidate, distance
            _charge(state, point, 1.0)
            _wake(lists, state, point, reach)
            if near >= 0:
                _replay(state, near)
    _replay(state, candidate)


@compiled
def drop(lists: Lists, reverse: Tables, state: State, number: int, limit: float) -> int:
    """Drop up to ``number`` medoids, cheapest first, that cost below ``limit``; say how many."""
    for dropped in range(number):
        cheapest = state.tree[1]
        if state.removal[cheapest] >= limit:
            return dropped
        _leave(lists, reverse, state, cheapest)
    return number


@compiled
def _best_swap(reverse: Tables, state: State, candidate: int) -> tuple[int, float]:
    """Return the medoid that ``candidate`` should replace, and the change of the objective."""
    shared = 0.0
    count = 0
    # Not a function called twice: handing over the state costs as much as such a loop.
    for part in range(2):
        offsets, points, distances = reverse[part]
        # First who is near enough, without a branch, which would be mispredicted half of the time.
        hits = 0
        for entry in range(offsets[candidate], offsets[candidate + 1]):
            state.hits[hits] = entry
            hits += distances[entry] < state.second_distance[points[entry]]
        for position in range(hits):
            entry = state.hits[position]
            point = points[entry]
            distance = np.float64(distances[entry])
            second = np.float64(state.second_distance[point])
            near_distance = np.float64(state.near_distance[point])
            weight = np.float64(state.weights[point])
            shared += weight * min(distance - near_distance, 0.0)
            saved = weight * (max(distance, near_distance) - second)
            near = state.near[point]
            if near >= 0 and saved < 0.0:
                if state.gain[near] == 0.0:
                    state.touched[count] = near
                    count += 1
                state.gain[near] += saved
    best = state.tree[1]
    change = state.removal[best]
    for position in range(count):
        medoid = state.touched[position]
        value = state.removal[medoid] + state.gain[medoid]
        state.gain[medoid] = 0.0
        if value < change or (value == change and medoid < best):
            best, change = medoid, value
    return best, change + shared


@compiled
def sweep(
    lists: Lists, reverse: Tables, state: State, first: int, quiet: int, tries: int, least: float
) -> tuple[int, int, int]:
    """Try up to ``tries`` stale candidates; swap where that gains > ``least`` (``exact.sweep``)."""
    count = len(state.chosen)
    swaps = 0
    while tries > 0 and quiet < count:
        candidate = first
        first = first + 1 if first + 1 < count else 0
        quiet += 1
        if state.chosen[candidate] or not state.stale[candidate]:
            continue
        tries -= 1
        state.stale[candidate] = False
        medoid, change = _best_swap(reverse, state, candidate)
        if change >= -least:
            continue
        _leave(lists, reverse, state, medoid)
        _enter(lists, reverse, state, candidate)
        swaps += 1
        quiet = 0
    return first, quiet, swaps
