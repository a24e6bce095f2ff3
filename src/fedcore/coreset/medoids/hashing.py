"""The compiled twin of ``plain.add_words``: the same keys in one pass over the numbers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled
from fedcore.coreset.medoids.geometry import Floats
from fedcore.coreset.medoids.plain import COARSE, FAR, FINE


@compiled
def add_words_compiled(keys: NDArray[np.int64], values: Floats, factors: NDArray[np.int64]) -> None:
    """Add a random linear form of each row to ``keys`` [v, n]; see ``plain``."""
    count, width = values.shape
    exact = values.view(np.int32)
    for point in range(count):
        total = np.int64(0)
        for t in range(width):
            total += _word(exact[point, t]) * factors[t]
        keys[-1, point] += total
    if len(keys) == 1 or width == 0:
        return
    centre, largest = np.zeros(width, np.float64), np.float32(FAR)
    for point in range(count):
        for t in range(width):
            centre[t] += np.float64(values[point, t])
    middle = (centre / count).astype(np.float32)
    away = 0.0
    for point in range(count):
        for t in range(width):
            away += np.float64(abs(values[point, t] - middle[t]))
    _, exponent = math.frexp(away / (count * width))
    scale, coarser = (
        np.float32(2.0 ** min(FINE - exponent, 127)),
        np.float32(2.0 ** (COARSE - FINE)),
    )
    for point in range(count):
        coarse = fine = np.int64(0)
        for t in range(width):
            step = (values[point, t] - middle[t]) * scale
            step = min(max(step, -largest), largest)
            coarse += _word(np.int32(np.rint(step * coarser))) * factors[t]
            fine += _word(np.int32(np.rint(step))) * factors[t]
        keys[0, point] += coarse
        keys[1, point] += fine


@compiled
def _word(value: np.int32) -> np.int64:
    wide = np.int64(value)
    return wide ^ (wide >> np.int64(15))  # trailing zeros would carry through the product
