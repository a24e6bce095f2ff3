"""The exact path: a float32 distance matrix, and FasterPAM on it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.exact import assign_all, clusters_of, sweep
from fedcore.coreset.medoids.geometry import Floats, Rows, distance_rows, leaves_of
from fedcore.coreset.medoids.solution import Problem, Solution
from fedcore.coreset.medoids.stream import solve_streamed


def distance_matrix(
    rows: Rows, labels: NDArray[np.int64] | None = None, threads: int = 1
) -> Floats:
    """Return all n² distances; those between different labels exceed any sum of others."""
    distances = _distances(rows, labels, threads, Deadline())
    assert distances is not None  # there was no deadline
    return distances


def _distances(
    rows: Rows, labels: NDArray[np.int64] | None, threads: int, deadline: Deadline
) -> Floats | None:
    """Return the matrix, or None as soon as it is clear that the time does not suffice."""
    count = len(rows.left)
    leaves = leaves_of(rows)
    distances = np.empty((count, count), np.float32)

    def fill(begin: int) -> None:
        if not deadline.over():
            distance_rows(rows, leaves, begin, distances[begin : begin + 64])

    if threads == 1:
        begun = time.monotonic()
        for begin in range(0, count, 64):
            fill(begin)
            spent = time.monotonic() - begun
            # At an eighth it is known how long the rest takes.
            if begin * 8 >= count and spent * (count - begin) / begin > deadline.left():
                return None
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, range(0, count, 64)))
    if deadline.over():
        return None
    if labels is not None:
        barrier = (float(distances.max()) + 1e-30) * (2 * count)
        distances[labels[:, None] != labels[None, :]] = barrier
    return distances


def solve_exact(problem: Problem, deadline: Deadline) -> Solution:
    """Swap from ``problem.start`` until no swap helps, or the time is up."""
    # Nearest medoids are looked up twice, before and after; that is cheaper than the matrix.
    distances = _distances(
        problem.rows, problem.labels, problem.threads, deadline.earlier(0.4 * _left(deadline))
    )
    if distances is None:
        return solve_streamed(problem, deadline)
    count = len(distances)
    if problem.k == 1:
        # Not BLAS, whose order of summation depends on its threads.
        sums = np.einsum("ij,j->i", distances, problem.weights, dtype=np.float64)
        best = np.array([int(np.argmin(sums))])
        return Solution(best, np.zeros(count, np.int64), 1.0, 0, "exact", True)
    state = clusters_of(count, problem.start)
    begun = time.monotonic()
    assign_all(distances, state, problem.weights)
    work = deadline.earlier(2.0 * (time.monotonic() - begun))
    first, quiet, swaps = 0, 0, 0
    # Between two looks at the clock: some 2 million entries, about a millisecond.
    tries = max(1, 2_000_000 // count) if deadline.moment is not None else count
    while quiet < count and not work.over():
        first, quiet, made = sweep(distances, state, problem.weights, first, quiet, tries)
        swaps += made
    medoids = np.sort(state.medoids)
    nearest = np.empty(count, np.int64)
    for begin in range(0, count, 256):
        block = distances[begin : begin + 256]
        nearest[begin : begin + 256] = block[:, medoids].argmin(axis=1)
    return Solution(medoids, nearest, 1.0, swaps, "exact", quiet >= count)


def _left(deadline: Deadline) -> float:
    return 0.0 if deadline.moment is None else deadline.left()
