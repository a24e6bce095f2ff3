"""Bounds on distances between a group of queries and leaves: which leaves need no look at all.

Leaves are runs of 64 points in spatial order. In a Euclidean space the squared distance to a
leaf's box, Σ_t max(low_t − x_t, x_t − high_t, 0)², is a lower bound; otherwise the triangle
inequality gives one, d(x, centre) − radius. For 64 queries together, the distance between their
box and a leaf's bounds them all: most leaves go at the price of one number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled, inlined
from fedcore.coreset.medoids.geometry import (
    FAR,
    LEAF,
    Floats,
    Leaves,
    Rows,
    leaves_of,
    squared_to_leaf,
    take_rows,
)

Ints = NDArray[np.int32]


class Index(NamedTuple):
    """Points to search among, in spatial order, with what bounds need."""

    leaves: Leaves
    names: Ints  # [m] what each point is called in answers
    low: Floats  # [d, leaves] boxes; no rows where bounds are balls
    high: Floats  # [d, leaves]
    centres: Leaves  # each leaf's middle point; no leaves where bounds are boxes
    radius: Floats  # [leaves]


def index_of(rows: Rows, names: NDArray[np.integer], *, bare: bool = False) -> Index:
    """Prepare the points called ``names`` (positions in ``rows``, ascending) to be searched.

    A ``bare`` index of outer products serves an exact search alone, which reads long factors from
    ``rows`` and bounds no leaves.
    """
    bare = bare and len(rows.norm_left) > 0
    chosen = take_rows(rows._replace(right=rows.right[:, :0]) if bare else rows, names)
    leaves = leaves_of(chosen)
    count = len(chosen.left)
    starts = np.arange(0, count, LEAF)
    low = high = np.zeros((0, len(starts)), np.float32)
    centres, radius = leaves_of(take_rows(rows, names[:0])), np.zeros(0, np.float32)
    if not len(rows.norm_left):
        low = np.ascontiguousarray(np.minimum.reduceat(chosen.left, starts, axis=0).T)
        high = np.ascontiguousarray(np.maximum.reduceat(chosen.left, starts, axis=0).T)
    elif not bare:
        middles = np.minimum(starts + LEAF // 2, count - 1)
        centres = leaves_of(take_rows(chosen, middles))
        radius = _radii(chosen, leaves, middles, count)
    return Index(leaves, names.astype(np.int32), low, high, centres, radius)


@compiled
def _radii(rows: Rows, leaves: Leaves, middles: NDArray[np.int64], count: int) -> Floats:
    radius = np.zeros(len(middles), np.float32)
    squared, rest = np.empty(LEAF, np.float32), np.empty(LEAF, np.float32)
    for leaf in range(len(middles)):
        squared_to_leaf(rows, middles[leaf], leaves, leaf, squared, rest, FAR)
        for j in range(min(LEAF, count - leaf * LEAF)):
            radius[leaf] = max(radius[leaf], np.sqrt(squared[j]))
    return radius


@inlined
def _box_bounds(index: Index, turned: Floats, leaf: int, bounds: Floats) -> None:
    """Set ``bounds`` [64] to the squared distances of 64 queries [d, 64] to the leaf's box."""
    for q in range(LEAF):
        bounds[q] = 0.0
    for t in range(index.low.shape[0]):
        low, high = index.low[t, leaf], index.high[t, leaf]
        for q in range(LEAF):
            gap = max(low - turned[t, q], turned[t, q] - high)
            gap = max(gap, np.float32(0.0))
            bounds[q] += gap * gap


@compiled
def _ball_bounds(rows: Rows, point: int, index: Index, bounds: Floats, q: int) -> None:
    """Set bounds[:, q] to no more than the squared distances of ``point`` to each leaf."""
    squared, rest = np.empty(LEAF, np.float32), np.empty(LEAF, np.float32)
    for group in range(index.centres.left.shape[0]):
        squared_to_leaf(rows, point, index.centres, group, squared, rest, FAR)
        begin = group * LEAF
        for j in range(min(LEAF, bounds.shape[0] - begin)):
            gap = np.sqrt(squared[j]) * np.float32(0.9999) - index.radius[begin + j]
            gap = max(gap, np.float32(0.0))
            bounds[begin + j, q] = gap * gap


@compiled
def _group_bounds(index: Index, turned: Floats, count: int, least: Floats, near: Floats) -> None:
    """For a group of queries and every leaf: a bound for all of them, and how near it is.

    ``least`` is the squared distance between the queries' box and the leaf's, ``near`` the sum of
    the distances of a few of them to the leaf's box, which is the better order to visit in.
    """
    for leaf in range(len(least)):
        least[leaf] = 0.0
        near[leaf] = 0.0
    step = max(1, count // 8)
    for t in range(index.low.shape[0]):
        low, high = turned[t, 0], turned[t, 0]
        for q in range(count):
            low, high = min(low, turned[t, q]), max(high, turned[t, q])
        for leaf in range(len(least)):
            gap = max(index.low[t, leaf] - high, low - index.high[t, leaf])
            gap = max(gap, np.float32(0.0))
            least[leaf] += gap * gap
        for q in range(0, count, step):
            value = turned[t, q]
            for leaf in range(len(least)):
                gap = max(index.low[t, leaf] - value, value - index.high[t, leaf])
                gap = max(gap, np.float32(0.0))
                near[leaf] += gap * gap


class Group(NamedTuple):
    """Up to 64 queries, and what bounds say about every leaf."""

    turned: Floats  # [d, 64] the queries' coordinates; unused where bounds are balls
    balls: Floats  # [leaves, 64] bounds of each query; no rows where bounds are boxes
    least: Floats  # [leaves] a bound for all queries at once
    near: Floats  # [leaves] how near a leaf is to them, to visit near ones first


@compiled
def group_of(rows: Rows, queries: NDArray[np.int64], index: Index) -> Group:
    """Compute what can be said before any distance to a point is known."""
    boxes, leaves, count = index.low.shape[0] > 0, index.leaves.left.shape[0], len(queries)
    group = Group(
        np.zeros((rows.left.shape[1], LEAF), np.float32),
        np.zeros((0 if boxes else leaves, LEAF), np.float32),
        np.zeros(leaves, np.float32),
        np.zeros(leaves, np.float32),
    )
    for q in range(count):
        if boxes:
            for t in range(rows.left.shape[1]):
                group.turned[t, q] = rows.left[queries[q], t]
        else:
            _ball_bounds(rows, queries[q], index, group.balls, q)
            for leaf in range(leaves):
                group.near[leaf] += group.balls[leaf, q]
    if boxes:
        _group_bounds(index, group.turned, count, group.least, group.near)
    return group


@inlined
def bounds_of(index: Index, group: Group, leaf: int, bounds: Floats) -> None:
    """Set ``bounds`` [64] to no more than each query's squared distance to the leaf."""
    if index.low.shape[0] > 0:
        _box_bounds(index, group.turned, leaf, bounds)
    else:
        for q in range(LEAF):
            bounds[q] = group.balls[leaf, q]


@compiled
def by_nearness(near: Floats) -> Ints:
    """Return the leaves from near to far, roughly: sorted by exponent and four bits behind it."""
    bits = near.view(np.uint32)
    begins = np.zeros(4097, np.int32)
    for leaf in range(len(near)):
        begins[(bits[leaf] >> np.uint32(19)) + 1] += 1
    for bucket in range(4096):
        begins[bucket + 1] += begins[bucket]
    order = np.empty(len(near), np.int32)
    for leaf in range(len(near)):
        bucket = bits[leaf] >> np.uint32(19)
        order[begins[bucket]] = leaf
        begins[bucket] += 1
    return order
