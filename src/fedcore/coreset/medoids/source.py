"""All distances between points, from a matrix or as they are asked for, and who serves whom."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled, inlined
from fedcore.coreset.medoids.geometry import LEAF, Floats, Indices, Leaves, Rows, squared_to_leaf

Doubles = NDArray[np.float64]

NONE = 1e30  # further than any distance; stands in for "no second medoid"


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
    touched: Indices  # [k + 1] scratch


@inlined
def _bar(labels: Indices, point: int, others: Indices, out: Floats) -> None:
    """Put points of another label further than any sum of distances, 2 √(c d) each at most."""
    if len(labels) > 0:
        barrier = np.float32(1e4) * np.float32(len(labels))
        for j in range(len(out)):
            if others[j] != labels[point]:
                out[j] = barrier


@compiled
def fill(source: Source) -> None:
    """Compute all n² distances, each once."""
    matrix = source.matrix
    count, squared = len(matrix), np.empty(LEAF, np.float32)
    for leaf in range(source.leaves.left.shape[0]):
        begin = leaf * LEAF
        for point in range(min(begin + LEAF, count)):
            squared_to_leaf(source.rows, point, source.leaves, leaf, squared)
            for j in range(LEAF):
                squared[j] = np.sqrt(squared[j])
            for j in range(min(LEAF, count - begin)):
                matrix[point, begin + j] = squared[j]
    for first in range(0, count, LEAF):
        for point in range(first + LEAF, count):
            for other in range(first, first + LEAF):
                matrix[point, other] = matrix[other, point]
    for point in range(count):
        _bar(source.labels, point, source.labels, matrix[point])


@compiled
def row_to(source: Source, point: int, leaves: Leaves, others: Indices, out: Floats) -> None:
    """Set ``out`` to the distances between ``point`` and those in ``leaves``, labels ``others``."""
    squared = np.empty(LEAF, np.float32)
    for leaf in range(leaves.left.shape[0]):
        squared_to_leaf(source.rows, point, leaves, leaf, squared)
        begin = leaf * LEAF
        for j in range(min(LEAF, len(out) - begin)):
            out[begin + j] = np.sqrt(squared[j])
    _bar(source.labels, point, others, out)


@inlined
def assign(source: Source, state: Clusters, point: int, to_medoids: Floats) -> None:
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
        if distance < second_distance:
            if distance < near_distance:
                near, second, near_distance, second_distance = slot, near, distance, near_distance
            else:
                second, second_distance = slot, distance
    state.near[point], state.second[point] = near, second
    state.near_distance[point], state.second_distance[point] = near_distance, second_distance


@compiled
def _assign_by_columns(matrix: Floats, state: Clusters) -> None:
    """Do so for all points, one medoid after the other, without a branch: its row is its column."""
    near, second = state.near, state.second
    near_distance, second_distance = state.near_distance, state.second_distance
    near[:], second[:], near_distance[:], second_distance[:] = -1, -1, NONE, NONE
    for slot in range(len(state.medoids)):
        row = matrix[state.medoids[slot]]
        for j in range(len(row)):
            distance, least, other = row[j], near_distance[j], near[j]
            closer, between = distance < least, distance < second_distance[j]
            second[j] = other if closer else (slot if between else second[j])
            second_distance[j] = least if closer else min(distance, second_distance[j])
            near[j] = slot if closer else other
            near_distance[j] = min(distance, least)


@compiled
def clusters_of(source: Source, medoids: Indices) -> Clusters:
    """Return who is served by these medoids; what removals cost is for ``charge_removals``."""
    count, k = len(source.rows.left), len(medoids)
    slot_of = np.full(count, -1, np.int64)
    slot_of[medoids] = np.arange(k)
    slots, reach = np.empty((2, count), np.int64), np.empty((2, count), np.float32)
    costs, touched = np.zeros((2, k)), np.empty(k + 1, np.int64)
    nearest = slots[0], slots[1], reach[0], reach[1]
    state = Clusters(medoids.copy(), slot_of, *nearest, costs[0], costs[1], touched)
    if len(source.matrix) > 0:
        _assign_by_columns(source.matrix, state)
    else:
        to_medoids = np.empty(k, np.float32)
        for point in range(count):
            assign(source, state, point, to_medoids)
    return state
