"""What a path of the solver is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # the answer must be at hand where numba is not
    from fedcore.coreset.medoids.geometry import Rows

COARSE, FINE = 7, 12  # bits of a number that the leading hash of a point sees, and the next one
FAR = 2.0**30  # steps from the mean, beyond which they see no difference


class TimeUp(Exception):
    """The time ran out in the middle of something that is of no use unfinished."""


Over = Callable[[], bool] | None  # a look at the clock: whether the time is up; or none is set


@dataclass(frozen=True, slots=True)
class Problem:
    """Choose k of u distinct points, 0 < k < u."""

    rows: Rows
    weights: NDArray[np.float32]  # [u] how many equal points each stands for
    k: int
    start: NDArray[np.int64]  # [k] distinct positions
    warm: bool = False  # whether ``start`` means something, or is as good as random
    labels: NDArray[np.int64] | None = None  # [u] points may only be served by their own label


@dataclass(frozen=True, slots=True)
class Medoids:
    """A solution: of a problem, where points are its distinct ones, or of all that was asked."""

    indices: NDArray[np.int64]  # [k] sorted, unique
    assignment: NDArray[np.int64]  # [n] position in ``indices`` of the nearest medoid
    path: str  # which way was taken: "exact", "sparse", "sampled" or "torch"
    certified: float = 1.0  # fraction of points whose swap gains were known to be exact
    swaps: int = 0
    finished: bool = True  # False if the time ran out first
    objective: float = 0.0  # Σ_j d(j, its medoid), differences and sums in float64
    error: float | None = None  # that of the weighted sum, where it is known (``gradient_error``)
