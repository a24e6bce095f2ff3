"""The distance of a single pair of long vectors, where a leaf of 64 would be too many."""

from __future__ import annotations

import numpy as np

from fedcore.compiled import inlined
from fedcore.coreset.medoids.geometry import Floats, Rows

LANES = 32


@inlined
def between(values: Floats, first: int, second: int, sums: Floats) -> np.float32:
    """Return ‖values[first] − values[second]‖²; ``sums`` [32] is scratch.

    So many sums side by side, added up in the end, since a single one would wait for itself.
    """
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
def outer_squared(
    rows: Rows, first: int, second: int, left: np.float32, right: np.float32
) -> np.float32:
    """Return the squared distance of two outer products from ‖Δr‖² and ‖Δz‖²."""
    norm_left, norm_right = rows.norm_left[first], rows.norm_right[first]
    other_left, other_right = rows.norm_left[second], rows.norm_right[second]
    half, quarter = np.float32(0.5), np.float32(0.25)
    value = left * (half * (norm_right + other_right) - quarter * right)
    value += right * (half * (norm_left + other_left) - quarter * left)
    value += half * ((norm_left - other_left) * (norm_right - other_right))
    return max(value, np.float32(0.0))
