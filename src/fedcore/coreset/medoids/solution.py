"""What the compiled paths are given and what every path returns, in terms of distinct points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # a solution must be at hand where numba is not
    from fedcore.coreset.medoids.geometry import Rows


EACH = 10  # candidates a medoid where medoids are few,
SPARE = 100  # and so many times √k, for with very few medoids a bad place for one costs percents


def candidate_number(k: int, count: int) -> int:
    """Return how many of ``count`` points to try at a time as one of few medoids."""
    return min(EACH * k + int(SPARE * k**0.5), count)


@dataclass(frozen=True, slots=True)
class Problem:
    """Choose k of u distinct points, 0 < k < u."""

    rows: Rows
    weights: NDArray[np.float32]  # [u] how many equal points each stands for
    k: int
    start: NDArray[np.int64]  # [k] distinct positions
    warm: bool  # whether ``start`` means something, or is as good as random
    labels: NDArray[np.int64] | None  # [u] points may only be served by their own label
    threads: int


@dataclass(frozen=True, slots=True)
class Solution:
    """Medoids as sorted positions, and each point's nearest as a position among them."""

    medoids: NDArray[np.int64]  # [k]
    nearest: NDArray[np.int64]  # [u]
    certified: float
    swaps: int
    path: str
    finished: bool
