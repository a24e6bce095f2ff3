"""The exact path: FasterPAM on all distances (``swaps``), from a matrix where that fits."""

from __future__ import annotations

import numpy as np

from fedcore.coreset.medoids.geometry import Rows
from fedcore.coreset.medoids.kernels import swap_to_the_end
from fedcore.coreset.medoids.layout import LONG, leaves_of, take_rows
from fedcore.coreset.medoids.problem import Medoids, Over, Problem
from fedcore.coreset.medoids.source import Indices, Source, assign_all, clusters_of
from fedcore.coreset.medoids.swaps import MOST_SWAPS, costs_alone, finish, sweep

# n up to which a matrix is kept, and for long vectors: there, reading beats computing by more.
STORED, STORED_LONG = 4_096, 16_384
PIECE = 500_000  # distances between two looks at the clock


def source_of(rows: Rows, labels: Indices | None, medoids: Indices, *, stored: bool) -> Source:
    """Prepare distances between all points, with these as the first medoids; a matrix is empty."""
    count, leaves = len(rows.left), leaves_of(rows)
    classes = np.empty(0, np.int64) if labels is None else labels
    served = classes[medoids] if len(classes) else classes
    matrix = np.empty((count if stored else 0, count), np.float32)
    # A matrix knows the medoids' distances, too.
    own = leaves if stored else leaves_of(take_rows(rows, medoids))
    return Source(matrix, rows, leaves, own, classes, served)


def solve_exact(problem: Problem, over: Over | None = None) -> Medoids:
    """Swap from ``problem.start`` until no swap helps, or the time is up.

    Swaps only ever lower the objective, so whenever they end, the answer is the best so far.
    """
    rows, labels, count = problem.rows, problem.labels, len(problem.weights)
    long = rows.left.shape[1] + rows.right.shape[1] > LONG
    # Filling a matrix cannot be cut short.
    stored = over is None and count <= (STORED_LONG if long else STORED)
    source = source_of(rows, labels, problem.start, stored=stored and problem.k > 1)
    if problem.k == 1:
        return _best_alone(problem, source, over)
    if over is None:
        medoids, near, swaps = swap_to_the_end(source, problem.start, problem.weights)
        return Medoids(medoids, near, "exact", swaps=swaps)
    state = clusters_of(count, problem.start)
    assign_all(source, state, problem.weights)
    first, quiet, swaps = 0, 0, 0
    while quiet < count and swaps <= MOST_SWAPS * count and not over():
        tries = max(1, PIECE // count)
        first, quiet, made = sweep(source, state, problem.weights, first, quiet, tries)
        swaps += made
    medoids, near = finish(source, state, problem.weights)
    return Medoids(medoids, near, "exact", swaps=swaps, finished=quiet >= count)


def _best_alone(problem: Problem, source: Source, over: Over | None) -> Medoids:
    """Return the best single medoid by trying all, beginning with the start."""
    count, begin = len(problem.weights), 0
    costs, size = np.full(count, np.inf), max(1, PIECE // count)
    if problem.warm:
        place = int(problem.start[0])
        costs_alone(source, problem.weights, place, costs[place : place + 1])
    while begin < count and not (over is not None and over()):
        costs_alone(source, problem.weights, begin, costs[begin : begin + size])
        begin += size
    best = np.array([int(np.argmin(costs))])
    return Medoids(best, np.zeros(count, np.int64), "exact", finished=begin >= count)
