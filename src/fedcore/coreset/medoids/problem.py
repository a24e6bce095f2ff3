"""What a path of the solver is given, and what it returns, also where numba is not."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from fedcore.coreset.metric import Floats, Indices

COARSE, FINE = 7, 12  # bits of a number that the leading hash of a point sees, and the next one
FAR = 2.0**30  # steps from the mean, beyond which they see no difference


class TimeUp(Exception):
    """The time ran out in the middle of something that is of no use unfinished."""


Over = Callable[[], bool] | None  # a look at the clock: whether the time is up; or none is set


class Rows(NamedTuple):
    """A metric's factors as arrays; a Euclidean space has no second one, and no norms."""

    left: Floats  # [n, c]
    right: Floats  # [n, d]
    norm_left: Floats  # [n] squared norms, for outer products
    norm_right: Floats  # [n]
    norms: Floats  # [n] of whole gradients, where matrix products find neighbours


@dataclass(frozen=True, slots=True)
class Problem:
    """Choose k of u distinct points, 0 < k < u."""

    rows: Rows
    weights: Floats  # [u] how many equal points each stands for
    k: int
    start: Indices  # [k] distinct positions
    warm: bool = False  # whether ``start`` means something, or is as good as random
    labels: Indices | None = None  # [u] points may only be served by their own label


@dataclass(frozen=True, slots=True)
class Medoids:
    """A solution: of a problem, where points are its distinct ones, or of all that was asked."""

    indices: Indices  # [k] sorted, unique
    assignment: Indices  # [n] position in ``indices`` of the nearest medoid
    path: str  # which way was taken: "exact", "sparse", "sampled" or "torch"
    certified: float = 1.0  # fraction of points whose swap gains were known to be exact
    swaps: int = 0
    finished: bool = True  # False if the time ran out first
    objective: float = 0.0  # Σ_j d(j, its medoid), differences and sums in float64
    error: float | None = None  # that of the weighted sum, where it is known (``gradient_error``)
