"""Who serves whom when points know only their neighbour lists, and what a removal costs.

Σ_j w_j d1_j, with d1_j the distance to the nearest medoid in j's list, is never less than the
true objective (Eq. 5 of the paper) and equals it where lists reach far enough. removal(m) =
Σ_{near_j = m} w_j (d2_j − d1_j) is kept up to date for every medoid, and a tournament tree over
it answers which medoid is cheapest to remove.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled, inlined
from fedcore.coreset.medoids.geometry import Floats, Ints
from fedcore.coreset.medoids.lists import Lists

NEVER = 1e300  # the removal cost of what is not a medoid


class State(NamedTuple):
    """Medoids and assignments; a point that knows no (second) medoid has −1 at distance far."""

    chosen: NDArray[np.bool_]  # [n]
    near: Ints  # [n]
    second: Ints  # [n]
    near_distance: Floats  # [n]
    second_distance: Floats  # [n]
    weights: Floats  # [n]
    removal: NDArray[np.float64]  # [p], p >= n a power of two
    tree: Ints  # [2 p] winners; the root, at 1, is the cheapest medoid
    stale: NDArray[np.bool_]  # [n] candidates to evaluate again
    gain: NDArray[np.float64]  # [n] scratch, all 0 between candidates
    touched: Ints  # [n] scratch
    hits: NDArray[np.int64]  # [n + 1] scratch
    far: Floats  # [1] no less than any distance


@compiled
def new_state(chosen: NDArray[np.bool_], weights: Floats, far: float) -> State:
    """Return a state with these medoids; ``settle`` fills it."""
    count = len(chosen)
    leaves = 2
    while leaves < count:
        leaves *= 2
    return State(
        chosen,
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty(count, np.float32),
        np.empty(count, np.float32),
        weights,
        np.empty(leaves, np.float64),
        np.empty(2 * leaves, np.int32),
        np.ones(count, np.bool_),
        np.zeros(count, np.float64),
        np.empty(count, np.int32),
        np.empty(count + 1, np.int64),
        np.full(1, far, np.float32),
    )


@inlined
def locate(lists: Lists, state: State, point: int) -> None:
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
def charge(state: State, point: int, sign: float) -> None:
    """Add (or take back) the point's share of what removing its nearest medoid costs."""
    near = state.near[point]
    if near >= 0:
        gap = np.float64(state.second_distance[point]) - np.float64(state.near_distance[point])
        state.removal[near] += sign * np.float64(state.weights[point]) * gap


@inlined
def replay(state: State, medoid: int) -> None:
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
        locate(lists, state, point)
        charge(state, point, 1.0)
        total += np.float64(state.weights[point]) * np.float64(state.near_distance[point])
    for node in range(leaves - 1, 0, -1):
        left, right = state.tree[2 * node], state.tree[2 * node + 1]
        state.tree[node] = left if state.removal[left] <= state.removal[right] else right
    return total
