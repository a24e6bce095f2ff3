"""Distances from one point to a run of 64 others: the inner loop of every compiled path.

Points are stored twice: as rows (a query is one row) and as *leaves*, runs of 64 consecutive
points laid out dimension by dimension, so that one query against one leaf is a loop over 64
contiguous numbers which the compiler turns into vector instructions. Distances come from
differences, never from ‖p‖² + ‖q‖² − 2⟨p, q⟩, which loses small distances between large vectors.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled, inlined
from fedcore.coreset.medoids.rotation import leading
from fedcore.coreset.metric import Metric

LINE = 64  # bytes that the processor reads at a time
LEAF = 64  # points a leaf: four 512-bit vectors of float32
HEAD = 32  # coordinates that are looked at first,
WHOLE = 64  # of vectors longer than this; below, that saves less than it costs (measured)
FAR = 1e30  # beyond any squared distance of points scaled to 1

Floats = NDArray[np.float32]


class Rows(NamedTuple):
    """A metric's factors as arrays.

    In a Euclidean space ``left`` holds the first coordinates and ``right`` the others, if there
    are many: most points are too far by the first ones alone. There are no norms then.
    """

    left: Floats  # [n, c]
    right: Floats  # [n, d]
    norm_left: Floats  # [n] squared norms, for outer products
    norm_right: Floats  # [n]
    head: Floats  # [n, h] the second factor on a few directions, for outer products
    tail: Floats  # [n] no less than the norm of what those leave of it


class Leaves(NamedTuple):
    """The same points, 64 at a time; the last leaf is filled up with zeros."""

    left: Floats  # [leaves, c, 64]
    right: Floats  # [leaves, d, 64]
    norm_left: Floats  # [leaves, 64]
    norm_right: Floats  # [leaves, 64]
    head: Floats  # [leaves, h, 64]
    tail: Floats  # [leaves, 64]


def rows_of(metric: Metric) -> Rows:
    """Return the metric's factors, scaled by powers of two so that no square leaves float32."""
    left, right = metric.factors
    rows_left = _scaled(left.cpu().numpy())
    if right is None:
        head, none = HEAD if rows_left.shape[1] > WHOLE else None, np.zeros(0, np.float32)
        first = np.ascontiguousarray(rows_left[:, :head])
        rest = np.ascontiguousarray(rows_left[:, first.shape[1] :])
        return Rows(first, rest, none, none, none[:, None], none)
    # The constant 1 of a bias must shrink with the inputs; as a column, it does.
    inputs = right.cpu().numpy()
    if metric.bias:
        inputs = np.column_stack((inputs, np.ones(len(inputs), np.float32)))
    rows_right = _scaled(inputs)
    return Rows(
        rows_left,
        rows_right,
        np.einsum("ij,ij->i", rows_left, rows_left),
        np.einsum("ij,ij->i", rows_right, rows_right),
        *leading(rows_right),
    )


def _scaled(values: Floats) -> Floats:
    count, width = values.shape
    rows = np.zeros((count, max(width, 1)), np.float32)
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    # A power of two, so that scaling is exact; 2^96 is as far as small numbers may be lifted.
    shift = min(-math.frexp(largest)[1], 96) if largest > 0 else 0
    np.ldexp(values, shift, out=rows[:, :width])
    return rows


def take_rows(rows: Rows, order: NDArray[np.integer]) -> Rows:
    """Return some of the points, in the given order."""
    if not len(rows.norm_left):
        return Rows(rows.left[order], rows.right[order], *rows[2:])
    return Rows(*(values[order] for values in rows))


def leaves_of(rows: Rows) -> Leaves:
    """Lay the points out in leaves of 64 consecutive ones."""
    return Leaves(
        _blocks(rows.left),
        _blocks(rows.right),
        _runs(rows.norm_left),
        _runs(rows.norm_right),
        _blocks(rows.head),
        _runs(rows.tail),
    )


def _blocks(values: Floats) -> Floats:
    count, width = values.shape
    blocks = -(-count // LEAF)
    filled = np.zeros((blocks * LEAF, width), np.float32)
    filled[:count] = values
    turned = aligned((blocks, width, LEAF))
    turned[:] = filled.reshape(blocks, LEAF, width).transpose(0, 2, 1)
    return turned


def aligned(shape: tuple[int, ...]) -> Floats:
    """Return an empty array that begins where a vector register can read it in one go."""
    size = math.prod(shape)
    room = np.empty(size + LINE // 4, np.float32)
    begin = -room.ctypes.data % LINE // 4
    return room[begin : begin + size].reshape(shape)


def _runs(values: Floats) -> Floats:
    filled = np.zeros(-(-len(values) // LEAF) * LEAF, np.float32)
    filled[: len(values)] = values
    return filled.reshape(len(filled) // LEAF, LEAF)


@inlined
def accumulate(blocks: Floats, leaf: int, values: Floats, point: int, out: Floats) -> None:
    """Set ``out`` to Σ_t (values[point, t] − blocks[leaf, t])², 64 sums at once.

    The compiler keeps the 64 sums in registers, but writes them to memory after every pass of the
    outer loop: two coordinates a pass are faster than one, and four or eight no faster than two. A
    test inside the loop makes it much slower.
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


@compiled
def _with_second_factor(
    rows: Rows, point: int, leaves: Leaves, leaf: int, out: Floats, rest: Floats, limit: float
) -> bool:
    accumulate(leaves.left, leaf, rows.left, point, out)
    if len(rows.norm_left) == 0:
        least = out[0]
        for j in range(LEAF):
            least = min(least, out[j])
        if least > limit:
            return False
        accumulate(leaves.right, leaf, rows.right, point, rest)
        for j in range(LEAF):
            out[j] += rest[j]
        return True
    accumulate(leaves.right, leaf, rows.right, point, rest)
    norm_left, norm_right = rows.norm_left[point], rows.norm_right[point]
    half, quarter = np.float32(0.5), np.float32(0.25)
    for j in range(LEAF):
        other_left, other_right = leaves.norm_left[leaf, j], leaves.norm_right[leaf, j]
        left, right = out[j], rest[j]
        value = left * (half * (norm_right + other_right) - quarter * right)
        value += right * (half * (norm_left + other_left) - quarter * left)
        value += half * ((norm_left - other_left) * (norm_right - other_right))
        out[j] = max(value, np.float32(0.0))
    return True


@inlined
def squared_to_leaf(
    rows: Rows, point: int, leaves: Leaves, leaf: int, out: Floats, rest: Floats, limit: float
) -> bool:
    """Set ``out`` [64] to the squared distances between ``point`` and the points of ``leaf``.

    ``rest`` [64] is scratch. Returns False, with ``out`` undefined, if all exceed ``limit``.
    """
    if rows.right.shape[1] == 0:
        accumulate(leaves.left, leaf, rows.left, point, out)
        return True
    # Not inlined: its loops beside the one above cost that one its registers.
    return _with_second_factor(rows, point, leaves, leaf, out, rest, limit)


@compiled
def distance_rows(rows: Rows, leaves: Leaves, begin: int, out: Floats) -> None:
    """Set ``out`` [m, n] to the distances of points begin .. begin + m to all n points."""
    squared, rest = np.empty(LEAF, np.float32), np.empty(LEAF, np.float32)
    for leaf in range(leaves.left.shape[0]):
        first = leaf * LEAF
        size = min(LEAF, out.shape[1] - first)
        for row in range(out.shape[0]):
            squared_to_leaf(rows, begin + row, leaves, leaf, squared, rest, FAR)
            for j in range(size):
                out[row, first + j] = np.sqrt(squared[j])
