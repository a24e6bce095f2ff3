"""What the machine could do at best: the cost of all distances at its matrix-product rate."""

from __future__ import annotations

import time
from functools import cache

import numpy as np


@cache
def products_per_second() -> float:
    """Return the multiply-adds a second of a float32 matrix product, best of five."""
    left = np.ones((2_000, 2_000), np.float32)
    left @ left
    best = float("inf")
    for _ in range(5):
        begin = time.process_time()
        left @ left
        best = min(best, time.process_time() - begin)
    return 2_000**3 / best


def all_distances_ms(count: int, width: int) -> float:
    """Milliseconds for n² inner products of ``width`` numbers: exact neighbours by brute force."""
    return count**2 * width / products_per_second() * 1e3
