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

from fedcore.compiled import compiled
from fedcore.coreset.medoids.metric import Metric

LEAF = 64  # points a leaf: four 512-bit vectors of float32

Floats = NDArray[np.float32]


class Rows(NamedTuple):
    """A metric's factors as arrays; ``right`` has no columns in a Euclidean space."""

    left: Floats  # [n, c], columns padded with zeros to a multiple of four
    right: Floats  # [n, d]
    norm_left: Floats  # [n] squared norms
    norm_right: Floats  # [n]


class Leaves(NamedTuple):
    """The same points, 64 at a time; the last leaf is filled up with zeros."""

    left: Floats  # [leaves, c, 64]
    right: Floats  # [leaves, d, 64]
    norm_left: Floats  # [leaves, 64]
    norm_right: Floats  # [leaves, 64]


def rows_of(metric: Metric) -> Rows:
    """Return the metric's factors, scaled by powers of two so that no square leaves float32."""
    left, right = metric.factors
    rows_left = _padded(left.cpu().numpy())
    if right is None:
        empty = np.zeros((len(rows_left), 0), np.float32)
        return Rows(rows_left, empty, np.zeros(0, np.float32), np.zeros(0, np.float32))
    # The constant 1 of a bias must shrink with the inputs; as a column, it does.
    inputs = right.cpu().numpy()
    if metric.bias:
        inputs = np.column_stack((inputs, np.ones(len(inputs), np.float32)))
    rows_right = _padded(inputs)
    return Rows(
        rows_left,
        rows_right,
        np.einsum("ij,ij->i", rows_left, rows_left),
        np.einsum("ij,ij->i", rows_right, rows_right),
    )


def _padded(values: Floats) -> Floats:
    count, width = values.shape
    rows = np.zeros((count, -(-max(width, 1) // 4) * 4), np.float32)
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    # A power of two, so that scaling is exact; 2^96 is as far as small numbers may be lifted.
    shift = min(-math.frexp(largest)[1], 96) if largest > 0 else 0
    np.ldexp(values, shift, out=rows[:, :width])
    return rows


def take_rows(rows: Rows, order: NDArray[np.integer]) -> Rows:
    """Return some of the points, in the given order."""
    if not rows.right.shape[1]:
        return Rows(rows.left[order], rows.right[order], rows.norm_left, rows.norm_right)
    return Rows(*(values[order] for values in rows))


def leaves_of(rows: Rows) -> Leaves:
    """Lay the points out in leaves of 64 consecutive ones."""
    return Leaves(
        _blocks(rows.left), _blocks(rows.right), _runs(rows.norm_left), _runs(rows.norm_right)
    )


def _blocks(values: Floats) -> Floats:
    count, width = values.shape
    blocks = -(-count // LEAF)
    filled = np.zeros((blocks * LEAF, width), np.float32)
    filled[:count] = values
    return np.ascontiguousarray(filled.reshape(blocks, LEAF, width).transpose(0, 2, 1))


def _runs(values: Floats) -> Floats:
    filled = np.zeros(-(-len(values) // LEAF) * LEAF, np.float32)
    filled[: len(values)] = values
    return filled.reshape(len(filled) // LEAF, LEAF)


@compiled
def accumulate(block: Floats, query: Floats, out: Floats) -> None:
    """Set ``out`` [64] to Σ_t (query_t − block_t)² for a block [d, 64], d a multiple of 4."""
    for j in range(LEAF):
        out[j] = 0.0
    for t in range(0, block.shape[0], 4):
        q0, q1, q2, q3 = query[t], query[t + 1], query[t + 2], query[t + 3]
        for j in range(LEAF):
            a, b = q0 - block[t, j], q1 - block[t + 1, j]
            c, d = q2 - block[t + 2, j], q3 - block[t + 3, j]
            out[j] += (a * a + b * b) + (c * c + d * d)


@compiled
def squared_to_leaf(
    rows: Rows, point: int, leaves: Leaves, leaf: int, out: Floats, scratch: Floats
) -> None:
    """Set ``out`` [64] to the squared distances between ``point`` and the points of ``leaf``."""
    accumulate(leaves.left[leaf], rows.left[point], out)
    if rows.right.shape[1] > 0:
        accumulate(leaves.right[leaf], rows.right[point], scratch)
        norm_left, norm_right = rows.norm_left[point], rows.norm_right[point]
        half, quarter = np.float32(0.5), np.float32(0.25)
        for j in range(LEAF):
            other_left, other_right = leaves.norm_left[leaf, j], leaves.norm_right[leaf, j]
            left, right = out[j], scratch[j]
            squared = left * (half * (norm_right + other_right) - quarter * right)
            squared += right * (half * (norm_left + other_left) - quarter * left)
            squared += half * ((norm_left - other_left) * (norm_right - other_right))
            out[j] = max(squared, np.float32(0.0))


@compiled
def distance_row(
    rows: Rows, point: int, leaves: Leaves, count: int, out: Floats, scratch: Floats
) -> None:
    """Set ``out`` [count] to the distances between ``point`` and all points in ``leaves``.

    ``scratch`` is [2, 64].
    """
    for leaf in range(leaves.left.shape[0]):
        squared_to_leaf(rows, point, leaves, leaf, scratch[0], scratch[1])
        begin = leaf * LEAF
        for j in range(min(LEAF, count - begin)):
            out[begin + j] = np.sqrt(scratch[0, j])


@compiled
def distance_rows(rows: Rows, leaves: Leaves, begin: int, out: Floats) -> None:
    """Set ``out`` [m, n] to the distances of points begin .. begin + m to all n points."""
    scratch = np.empty((2, LEAF), np.float32)
    for row in range(out.shape[0]):
        distance_row(rows, begin + row, leaves, out.shape[1], out[row], scratch)
