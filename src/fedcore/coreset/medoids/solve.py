"""k-medoids: the k points that serve all others best, Σ_j min_k d_jk (Eq. 5 of the paper).

What holds whatever the input: medoids are distinct points as long as there are enough of them
(equal points are merged before solving), and each serves itself; ties go to the point that comes
first in an order made of a hash of the points' contents; so permuting the input permutes the
answer and changes nothing else, except which of several *equal* points stands for them (the one
with the lowest index). A seed gives one answer, on any device.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.coreset.medoids.distinct import NUMBA, Distinct, distinct
from fedcore.coreset.medoids.problem import Medoids, Over, Problem
from fedcore.coreset.metric import Array, Euclidean, Metric, OuterProduct, pair_distances

SMALL = 700  # points up to which all distances are faster than neighbour lists (measured)
SMALL_FEW = 4096  # ... and so far where medoids are few
SHORT = 40  # coordinates that are not worth turning (``principal``)
LARGEST_CLUSTER = 40  # n / k, up to which lists of neighbours reach; beyond, clusters outgrow them

Indices = NDArray[np.int64]


def path_for(count: int, k: int) -> str:
    """Say which way is taken with numba: the one place where that is decided.

    Everything is compared on the ``exact`` path where that is little, and for a single medoid;
    lists of neighbours serve many medoids (``sparse``), lists of candidates few (``sampled``).
    """
    many = k * LARGEST_CLUSTER >= count
    if k == 1 or count <= (SMALL if many else SMALL_FEW):
        return "exact"
    return "sparse" if many else "sampled"


def solve(
    space: Metric | Array,
    k: int,
    *,
    seed: int = 0,
    labels: Tensor | NDArray[np.integer] | None = None,
    start: Tensor | NDArray[np.integer] | None = None,
    seconds: float | None = None,
    over: Over | None = None,
    path: str = "auto",
) -> Medoids:
    """Choose k medoids among the points of a space.

    Args:
        space: A metric, or points [n, d] with Euclidean distances.
        k: How many to choose; n or more chooses all.
        seed: Of the order in which points are looked at.
        labels: One integer a point; then a point is only ever served by a medoid of its own
            label, while the budget k is shared by all labels.
        start: Medoids to begin with, such as those of an earlier, similar problem.
        seconds: After so long the best medoids so far are returned, with everybody's nearest: to
            find those for certain is what this may take longer. At the worst they are k points
            drawn at random, or the start.
        over: A clock in place of ``seconds``: says whether the time is up.
        path: "exact", "sparse", "sampled", "torch", or "auto"; see ``path_for``.

    Raises:
        ValueError: If k is not positive, there are no points, they are not finite, labels do
            not fit, or labels ask for more medoids than k.
    """
    if seconds is not None:
        end = time.monotonic() + seconds
        over = lambda: time.monotonic() >= end  # noqa: E731
    metric = space if isinstance(space, Euclidean | OuterProduct) else Euclidean(space)
    count = len(metric)
    if count == 0:
        raise ValueError("there must be at least one point to choose from, got none")
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    classes = None if labels is None else _checked_labels(labels, count)
    if k >= count:
        everything = np.arange(count, dtype=np.int64)
        return Medoids(everything, everything.copy(), "exact")
    single = metric.single()
    factors = [factor.cpu().numpy() for factor in single.factors if factor is not None]
    points = distinct(factors, seed, classes)
    if k >= len(points.first):
        return _all_distinct(points, k)
    if classes is not None:
        present = len(np.unique(classes))
        if k < present:
            raise ValueError(
                f"k must be at least the number of labels ({present}) if points are to be served "
                f"by their own label, got {k}"
            )
        classes = classes[points.first]
    begin = _start(points, k, start, classes)
    if path == "auto":
        path = path_for(len(points.first), k) if NUMBA else "torch"
    device = single.factors[0].device
    if path == "torch":
        from fedcore.coreset.medoids.plain import solve_plain

        chosen = single.take(torch.from_numpy(points.first).to(device))
        tensors = (torch.from_numpy(v).to(device) for v in (points.counts, begin))
        counts, first = tensors
        own = None if classes is None else torch.from_numpy(classes).to(device)
        solution = solve_plain(chosen, counts, own, first, over)
    else:
        rows = [factor[points.first] for factor in factors]
        problem = _problem(rows, single.bias, points, k, begin, start is not None, classes)
        solution = _compiled(problem, path, over)
    return _answer(metric, points, solution)


def _problem(
    factors: list[NDArray[np.float32]],
    bias: bool,
    points: Distinct,
    k: int,
    start: Indices,
    warm: bool,
    classes: Indices | None,
) -> Problem:
    from fedcore.coreset.medoids.layout import rows_of

    if len(factors) == 1 and factors[0].shape[1] > SHORT:
        from fedcore.coreset.medoids.principal import turned

        factors = [turned(factors[0])]
    rows = rows_of(factors, bias=bias)
    return Problem(rows, points.counts.astype(np.float32), k, start, warm, classes)


def _compiled(problem: Problem, path: str, over: Over | None) -> Medoids:
    from fedcore.coreset.medoids.exact import solve_exact

    if path == "exact" or problem.k == 1:
        return solve_exact(problem, over)
    if path == "sparse":
        from fedcore.coreset.medoids.sparse import solve_sparse

        return solve_sparse(problem, over)
    from fedcore.coreset.medoids.sampled import solve_sampled

    return solve_sampled(problem, over)


def _checked_labels(labels: Tensor | NDArray[np.integer], count: int) -> Indices:
    values = torch.as_tensor(labels)
    if values.shape != (count,):
        raise ValueError(
            f"labels must be one integer a point ({count} points), got shape {tuple(values.shape)}"
        )
    if values.is_floating_point() or values.is_complex():
        raise ValueError(f"labels must be integers, got {values.dtype}")
    return values.cpu().numpy().astype(np.int64)


def _all_distinct(points: Distinct, k: int) -> Medoids:
    """There are no more than k different points: each is chosen, then second copies."""
    chosen = np.zeros(len(points.group), np.bool_)
    chosen[points.first] = True
    chosen[np.flatnonzero(~chosen)[: k - len(points.first)]] = True
    indices = np.flatnonzero(chosen)
    slot = np.empty(len(points.first), np.int64)
    slot[points.group[indices][::-1]] = np.arange(len(indices))[::-1]  # the first copy serves
    assignment = slot[points.group]
    assignment[indices] = np.arange(len(indices))
    return Medoids(indices, assignment, "exact")


def _start(
    points: Distinct,
    k: int,
    start: Tensor | NDArray[np.integer] | None,
    classes: Indices | None,
) -> Indices:
    """Return k different positions: given ones first, then one a label, then by hash order."""
    wanted: list[Indices] = []
    if start is None and classes is None:
        return np.arange(k)
    if start is not None:
        given = torch.as_tensor(start).to(torch.int64).cpu().numpy()
        if len(given) and not 0 <= given.min() <= given.max() < len(points.group):
            raise ValueError(
                f"start must hold indices between 0 and {len(points.group) - 1}, "
                f"got {given.min()} to {given.max()}"
            )
        wanted.append(points.group[given])
    if classes is not None:
        wanted.insert(0, np.unique(classes, return_index=True)[1])
    wanted.append(np.arange(len(points.first)))
    merged = np.concatenate(wanted)
    _, position = np.unique(merged, return_index=True)
    return np.sort(merged[np.sort(position)[:k]]).astype(np.int64)


def _answer(metric: Metric, points: Distinct, solution: Medoids) -> Medoids:
    """Translate positions among distinct points back to indices of the input."""
    chosen = points.first[solution.indices]
    order = np.argsort(chosen)
    slot = np.empty(len(order), np.int64)
    slot[order] = np.arange(len(order))
    indices = chosen[order]
    assignment = slot[solution.assignment][points.group]
    # A medoid serves itself, even where rounding leaves no distance to another one.
    assignment[indices] = np.arange(len(indices))
    device = metric.factors[0].device
    everyone = torch.arange(len(assignment), device=device)
    served = torch.from_numpy(indices[assignment]).to(device)
    total = float(pair_distances(metric, everyone, served).sum())
    return replace(solution, indices=indices, assignment=assignment, objective=total)
