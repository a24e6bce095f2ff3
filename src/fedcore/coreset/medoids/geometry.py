"""Distances from one point to a run of 64 others: the inner loop of every compiled path.

Points are stored as rows and as *leaves*, 64 of them dimension by dimension, which the compiler
turns into vector instructions. Distances come from differences: ‖p‖² + ‖q‖² − 2⟨p, q⟩ loses small
ones between large vectors.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled, inlined

LEAF = 64  # points a leaf: four 512-bit vectors of float32
LANES = 32  # sums side by side
FAR = 1e30  # beyond any squared distance of points scaled to 1

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Indices = NDArray[np.int64]
Real = np.float32
Found = tuple[Ints, Floats]  # names and distances [m, K] to be filled in


class Rows(NamedTuple):
    """A metric's factors as arrays; a Euclidean space has no second one, and no norms."""

    left: Floats  # [n, c]
    right: Floats  # [n, d]
    norm_left: Floats  # [n] squared norms, for outer products
    norm_right: Floats  # [n]
    norms: Floats  # [n] of whole gradients, where matrix products find neighbours


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
