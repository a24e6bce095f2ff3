"""How data is spread over clients: the numbers of the paper's Table 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A row of Table 1 as printed."""

    clients: int
    samples: int
    mean: float
    std: float


@dataclass(frozen=True, slots=True)
class Spread:
    """The same numbers of data at hand; ``std`` divides by n, as the paper's does."""

    clients: int
    samples: int
    mean: float
    std: float
    least: int
    median: float
    most: int


def spread_of(sizes: Sequence[int]) -> Spread:
    """Statistics of samples per client.

    >>> spread_of([1, 3]).std
    1.0
    """
    array = np.asarray(sizes)
    return Spread(
        clients=len(array),
        samples=int(array.sum()),
        mean=float(array.mean()),
        std=float(array.std()),
        least=int(array.min()),
        median=float(np.median(array)),
        most=int(array.max()),
    )
