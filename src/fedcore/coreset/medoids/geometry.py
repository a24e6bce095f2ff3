"""Distances from one point to a run of 64 others, the inner loop of every compiled path; between
all points, from a matrix or as they are asked for; and who serves whom by them.

Points are stored as rows and as *leaves*, 64 of them dimension by dimension, which the compiler
turns into vector instructions. Distances come from differences: ‖p‖² + ‖q‖² − 2⟨p, q⟩ loses small
ones between large vectors.
"""

from typing import NamedTuple

import numpy as np

from fedcore.compiled import compiled, inlined
from fedcore.coreset.medoids.problem import Rows
from fedcore.coreset.metric import Doubles, Floats, Indices

LEAF = 64  # points a leaf: four 512-bit vectors of float32
LANES = 32  # sums side by side
FAR = 1e30  # beyond any (squared) distance of points scaled to 1, and that of no second medoid

Real = np.float32


class Leaves(NamedTuple):
    """The same points, 64 at a time; the last leaf is filled up with zeros."""

    left: Floats  # [leaves, c, 64]
    right: Floats  # [leaves, d, 64]
    norm_left: Floats  # [leaves, 64]
    norm_right: Floats  # [leaves, 64]


@inlined
def accumulate(blocks: Floats, leaf: int, values: Floats, point: int, out: Floats) -> None:
    """Set ``out`` to Σ_t (values[point, t] − blocks[leaf, t])², 64 sums at once.

    Sums go to memory after every pass of the outer loop: two coordinates a pass are faster than
    one, four no faster than two, and a test inside makes it much slower.
    """
    for j in range(LEAF):
        out[j] = 0.0
    width = blocks.shape[1]
    even = width - width % 2
    for t in range(0, even, 2):
        query, following = values[point, t], values[point, t + 1]
        for j in range(LEAF):
            gap = query - blocks[leaf, t, j]
            other = following - blocks[leaf, t + 1, j]
            out[j] = (out[j] + gap * gap) + other * other
    for t in range(even, width):
        query = values[point, t]
        for j in range(LEAF):
            gap = query - blocks[leaf, t, j]
            out[j] += gap * gap


@inlined
def _outer(
    left: Real, right: Real, norm_left: Real, other_left: Real, norm_right: Real, other_right: Real
) -> Real:
    """Return the squared distance of two outer products from ‖Δr‖² and ‖Δz‖² (``metric``)."""
    half, quarter = np.float32(0.5), np.float32(0.25)
    value = left * (half * (norm_right + other_right) - quarter * right)
    value += right * (half * (norm_left + other_left) - quarter * left)
    value += half * ((norm_left - other_left) * (norm_right - other_right))
    return max(value, np.float32(0.0))


@compiled
def _outer_to_leaf(rows: Rows, point: int, leaves: Leaves, leaf: int, out: Floats) -> None:
    rest = np.empty(LEAF, np.float32)
    accumulate(leaves.left, leaf, rows.left, point, out)
    accumulate(leaves.right, leaf, rows.right, point, rest)
    norm_left, norm_right = rows.norm_left[point], rows.norm_right[point]
    for j in range(LEAF):
        other_left, other_right = leaves.norm_left[leaf, j], leaves.norm_right[leaf, j]
        out[j] = _outer(out[j], rest[j], norm_left, other_left, norm_right, other_right)


@inlined
def squared_to_leaf(rows: Rows, point: int, leaves: Leaves, leaf: int, out: Floats) -> None:
    """Set ``out`` [64] to the squared distances between ``point`` and the points of ``leaf``."""
    if len(rows.norm_left) == 0:
        accumulate(leaves.left, leaf, rows.left, point, out)
    else:
        # Not inlined: its loops beside the one above cost that one its registers.
        _outer_to_leaf(rows, point, leaves, leaf, out)


@inlined
def _between(values: Floats, first: int, second: int, sums: Floats) -> np.float32:
    """Return ‖values[first] − values[second]‖², many sums at a time; ``sums`` [32] is scratch."""
    width = values.shape[1]
    for lane in range(LANES):
        sums[lane] = 0.0
    whole = width - width % LANES
    for t in range(0, whole, LANES):
        for lane in range(LANES):
            gap = values[first, t + lane] - values[second, t + lane]
            sums[lane] += gap * gap
    for lane in range(width - whole):
        gap = values[first, whole + lane] - values[second, whole + lane]
        sums[lane] += gap * gap
    for lane in range(8):
        sums[lane] = (sums[lane] + sums[lane + 8]) + (sums[lane + 16] + sums[lane + 24])
    for lane in range(4):
        sums[lane] += sums[lane + 4]
    total: np.float32 = (sums[0] + sums[1]) + (sums[2] + sums[3])
    return total


@inlined
def squared_of_pair(rows: Rows, first: int, second: int, sums: Floats) -> np.float32:
    """Return one squared distance, where a leaf of 64 would be too many; ``sums`` is scratch."""
    left = _between(rows.left, first, second, sums)
    if len(rows.norm_left) == 0:
        return left
    right = _between(rows.right, first, second, sums)
    one, other = rows.norm_left, rows.norm_right
    return _outer(left, right, one[first], one[second], other[first], other[second])


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
    second_distance: Floats  # [n] FAR if k = 1
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
            for j in range(min(LEAF, count - begin)):
                matrix[point, begin + j] = np.sqrt(squared[j])
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
    near_distance = second_distance = np.float32(FAR)
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
def clusters_of(source: Source, medoids: Indices) -> Clusters:
    """Return who is served by these medoids; what removals cost is for ``charge_removals``."""
    count, k = len(source.rows.left), len(medoids)
    slot_of = np.full(count, -1, np.int64)
    slot_of[medoids] = np.arange(k)
    slots, reach = np.empty((2, count), np.int64), np.empty((2, count), np.float32)
    costs, touched = np.zeros((2, k)), np.empty(k + 1, np.int64)
    nearest = slots[0], slots[1], reach[0], reach[1]
    state = Clusters(medoids.copy(), slot_of, *nearest, costs[0], costs[1], touched)
    to_medoids = np.empty(k, np.float32)
    for point in range(count):
        assign(source, state, point, to_medoids)
    return state
