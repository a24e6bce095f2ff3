"""The exact path: a float32 distance matrix, and FasterPAM on it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.exact import assign_all, clusters_of, sweep
from fedcore.coreset.medoids.geometry import Floats, Rows, distance_rows, leaves_of
from fedcore.coreset.medoids.solution import Problem, Solution


def distance_matrix(
    rows: Rows, labels: NDArray[np.int64] | None = None, threads: int = 1
) -> Floats:
    """Return all n² distances; those between different labels exceed any sum of others."""
    count = len(rows.left)
    leaves = leaves_of(rows)
    distances = np.empty((count, count), np.float32)

    def fill(begin: int) -> None:
        distance_rows(rows, leaves, begin, distances[begin : begin + 64])

    if threads == 1:
        for begin in range(0, count, 64):
            fill(begin)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, range(0, count, 64)))
    if labels is not None:
        barrier = (float(distances.max()) + 1e-30) * (2 * count)
        distances[labels[:, None] != labels[None, :]] = barrier
    return distances


def solve_exact(problem: Problem, deadline: Deadline) -> Solution:
    """Swap from ``problem.start`` until no swap helps, or the time is up."""
    distances = distance_matrix(problem.rows, problem.labels, problem.threads)
    count = len(distances)
    if problem.k == 1:
        # Not BLAS, whose order of summation depends on its threads.
        sums = np.einsum("ij,j->i", distances, problem.weights, dtype=np.float64)
        best = np.array([int(np.argmin(sums))])
        return Solution(best, np.zeros(count, np.int64), 1.0, 0, "exact", True)
    state = clusters_of(count, problem.start)
    assign_all(distances, state, problem.weights)
    first, quiet, swaps = 0, 0, 0
    # Between two looks at the clock: some 20 million entries, a few milliseconds.
    tries = max(1, 20_000_000 // count) if deadline.moment is not None else count
    while quiet < count and not deadline.over():
        first, quiet, made = sweep(distances, state, problem.weights, first, quiet, tries)
        swaps += made
    medoids = np.sort(state.medoids)
    nearest = np.empty(count, np.int64)
    for begin in range(0, count, 256):
        block = distances[begin : begin + 256]
        nearest[begin : begin + 256] = block[:, medoids].argmin(axis=1)
    return Solution(medoids, nearest, 1.0, swaps, "exact", quiet >= count)
