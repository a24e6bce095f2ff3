"""k-medoids as the textbook has it, slow and plain, and how tests come by rows and distances."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fedcore.coreset.medoids import layout
from fedcore.coreset.medoids.exact import source_of
from fedcore.coreset.medoids.geometry import fill

Distances = NDArray[np.floating]


def objective(distances: Distances, medoids: NDArray[np.integer]) -> float:
    """Return Σ_j min_k d_jk (Eq. 5 of the paper) for a chosen set of columns."""
    return float(distances[:, medoids].min(axis=1).sum(dtype=np.float64))


def exhaustive(distances: Distances, k: int) -> tuple[NDArray[np.int64], float]:
    """Return the best of all n-choose-k sets; for a handful of points only."""
    best = min(
        combinations(range(len(distances)), k),
        key=lambda chosen: objective(distances, np.array(chosen)),
    )
    medoids = np.array(best, dtype=np.int64)
    return medoids, objective(distances, medoids)


def pam(distances: Distances, start: NDArray[np.integer]) -> tuple[NDArray[np.int64], float]:
    """Swap the best pair (medoid, other point) until no swap helps: PAM's second phase.

    Kaufman and Rousseeuw, "Finding Groups in Data" (1990), chapter 2. Each step looks at all
    k (n − k) swaps, so the result is a local optimum by construction.
    """
    medoids = np.array(start, dtype=np.int64)
    current = objective(distances, medoids)
    while True:
        best, best_medoids = current, medoids
        for slot in range(len(medoids)):
            for candidate in np.setdiff1d(np.arange(len(distances)), medoids):
                trial = medoids.copy()
                trial[slot] = candidate
                value = objective(distances, trial)
                if value < best - 1e-12 * abs(best):
                    best, best_medoids = value, trial
        if best_medoids is medoids:
            return np.sort(medoids), current
        medoids, current = best_medoids, best


def rows_of(metric):
    """A metric's rows as the compiled paths are given them, long vectors unturned."""
    single = metric.single()
    factors = [factor.numpy() for factor in single.factors]
    return layout.rows_of(factors, bias=single.bias)


def distance_matrix(rows, labels=None):
    """All distances, as the exact path has them."""
    source = source_of(rows, labels, np.arange(1), stored=True)
    fill(source)
    return source.matrix
