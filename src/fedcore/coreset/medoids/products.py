"""Exact nearest neighbours of long vectors: a matrix product bounds all distances.

    ‖g_i − g_j‖² = ‖g_i‖² + ‖g_j‖² − 2 ⟨g_i, g_j⟩,   of outer products ⟨r_i, r_j⟩⟨z_i, z_j⟩,

in float32 is wrong by some millionths of the norms: less that slack, a lower bound. Of the K points
with the least bounds, distances are computed from differences, then of those whose bound is below
the K-th. What is returned does not depend on how the product was rounded.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled
from fedcore.coreset.medoids import geometry
from fedcore.coreset.medoids.geometry import FAR, LANES, LEAF, Floats, Found, Indices, Ints, Rows
from fedcore.coreset.medoids.search import Keys, furthest_bits, key_of, thin, threshold, write

Bits = NDArray[np.uint32]
Span = tuple[np.uint32, np.uint32]  # the least and the largest, as bits


class Products(NamedTuple):
    """Points to search among."""

    names: Ints  # [m] what each point is called in answers
    left: Floats  # [c, m]
    right: Floats  # [d, m]
    norms: Floats  # [m]


@compiled
def _measure(
    rows: Rows, point: int, names: Ints, bounds: Bits, span: Span, keys: Keys, held: int, most: int
) -> int:
    """Append keys of points with bounds in a ``span``; of too many the ``most`` nearest stay."""
    (least, limit), room, sums = span, keys.shape[1] - 1, np.empty(LANES, np.float32)
    for begin in range(0, len(bounds), LEAF):
        hits = np.uint32(0)
        for j in range(LEAF):
            hits += np.uint32((bounds[begin + j] >= least) & (bounds[begin + j] <= limit))
        if hits == 0:
            continue
        for j in range(begin, begin + LEAF):
            if bounds[j] < least or bounds[j] > limit:
                continue
            sums[0] = geometry.squared_of_pair(rows, point, names[j], sums)
            keys[0, held] = key_of(sums.view(np.uint32)[0], names[j])
            held += 1
            if held > room:
                held = thin(keys, 0, held, most, most // 4)
                limit = min(limit, furthest_bits(keys, 0, held))
    return held


@compiled
def nearest_by_products(
    rows: Rows, queries: Indices, index: Products, products: Floats, found: Found, keep_own: bool
) -> None:
    """Find the nearest to m queries; ``products`` [m, size] are inner products with ``index``."""
    points, distances = found
    names, norms = index.names, index.norms
    size = len(names)
    slack = np.float32(1e-6 + 3e-7 * math.sqrt(rows.left.shape[1] + rows.right.shape[1]))
    wanted = points.shape[1] + (0 if keep_own else 1)  # the query itself may be among them
    keys = np.empty((1, 2 * wanted + 64), np.uint64)
    bounds = np.full(-(-size // LEAF) * LEAF, np.float32(FAR), np.float32)  # nobody at the end
    bits = bounds.view(np.uint32)
    sure, two, zero = np.float32(1.0) - slack, np.float32(2.0), np.float32(0.0)
    for q in range(len(queries)):
        point = queries[q]
        own = rows.norms[point]
        for j in range(size):
            bounds[j] = max(sure * (own + norms[j]) - two * products[q, j], zero)
        least = min(wanted, size)
        nearest = np.uint32(threshold(bits[:size], least, least // 4))
        span = np.uint32(0), nearest
        held = _measure(rows, point, names, bits, span, keys, 0, wanted)
        if held >= wanted:
            held = thin(keys, 0, held, wanted, 0)
            span = nearest + np.uint32(1), furthest_bits(keys, 0, held)
            held = _measure(rows, point, names, bits, span, keys, held, wanted)
        if held > wanted + 8:
            held = thin(keys, 0, held, wanted, 8)
        write(keys, 0, held, -1 if keep_own else point, points[q : q + 1], distances[q : q + 1])
