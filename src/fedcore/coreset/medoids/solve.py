"""k-medoids: the k points that serve all others best, Σ_j min_k d_jk (Eq. 5 of the paper).

What holds whatever the input: medoids are distinct points as long as there are enough of them
(equal points are merged before solving); ties go to the point that comes first in an order made
of a hash of the points' contents; so permuting the input permutes the answer and changes nothing
else, except which of several *equal* points stands for them (the one with the lowest index). A
seed gives one answer, whatever the number of threads.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.compiled import have_numba
from fedcore.coreset.medoids.canonical import Distinct, distinct
from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.metric import Array, Euclidean, Metric, OuterProduct

if TYPE_CHECKING:
    from fedcore.coreset.medoids.solution import Problem, Solution

SMALL = 700  # up to here a distance matrix is faster than neighbour lists (measured)

MANY = 4096  # ... and so far where medoids are few
LARGEST_SHARE = 40  # lists of all neighbours serve k >= n / 40; below, clusters outgrow them

SolverPath = Literal["auto", "exact", "sparse", "torch"]


@dataclass(frozen=True, slots=True)
class Medoids:
    """A solution; arrays are NumPy's whatever the input was."""

    indices: NDArray[np.int64]  # [k] sorted, unique
    assignment: NDArray[np.int64]  # [n] position in ``indices`` of the nearest medoid
    objective: float  # Σ_j d(j, its medoid), differences and sums in float64
    certified: float  # fraction of points whose swap gains were known to be exact
    swaps: int
    path: str  # "exact", "sparse" or "torch"
    finished: bool  # False if the time ran out first

    @property
    def weights(self) -> NDArray[np.int64]:
        """How many points each medoid serves, [k]; they sum to n."""
        return np.bincount(self.assignment, minlength=len(self.indices)).astype(np.int64)


def solve(
    space: Metric | Array,
    k: int,
    *,
    seed: int = 0,
    labels: Tensor | NDArray[np.integer] | None = None,
    start: Tensor | NDArray[np.integer] | None = None,
    seconds: float | None = None,
    path: SolverPath = "auto",
    threads: int = 1,
) -> Medoids:
    """Choose k medoids among the points of a space.

    Args:
        space: A metric, or points [n, d] with Euclidean distances.
        k: How many to choose; n or more chooses all.
        seed: Of the order in which points are looked at.
        labels: One integer a point; then a point is only ever served by a medoid of its own
            label, while the budget k is shared by all labels.
        start: Medoids to begin with, such as those of an earlier, similar problem.
        seconds: Wall-clock budget; when it is spent, the best medoids so far are returned.
        path: "exact" (distance matrix), "sparse" (neighbour lists), "torch" (tensor operations
            where the tensors are), or "auto".
        threads: For distances and neighbours.

    Raises:
        ValueError: If k is not positive, there are no points, they are not finite, labels do
            not fit, or labels ask for more medoids than k.
    """
    deadline, began = Deadline.after(seconds), time.monotonic()
    metric = space if isinstance(space, Euclidean | OuterProduct) else Euclidean(space)
    count, device = len(metric), metric.factors[0].device
    if count == 0:
        raise ValueError("there must be at least one point to choose from, got none")
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    classes = None if labels is None else _checked_labels(labels, count, device)
    if k >= count:
        everything = np.arange(count, dtype=np.int64)
        return Medoids(everything, everything.copy(), 0.0, 1.0, 0, "exact", True)
    points = distinct(metric, seed, classes)
    if k >= len(points.first):
        return _all_distinct(points, k)
    if classes is not None:
        present = len(torch.unique(classes))
        if k < present:
            raise ValueError(
                f"k must be at least the number of labels ({present}) if points are to be served "
                f"by their own label, got {k}"
            )
        classes = classes[points.first]
    begin = _start(points, k, start, classes)
    if seconds is not None:
        deadline = deadline.earlier(_time_to_answer(metric))
        # Before they have any answer, paths take so many times what finding equal points took
        # (measured: 3 for 1,000 points, 11 for 200,000): a level of a k-d tree reads them once.
        if deadline.left() < max(4.0, math.log2(count / 64)) * (time.monotonic() - began):
            return _answer(metric, points, _glimpse(metric, points, begin, classes, path, deadline))
    if path == "auto" and (device.type != "cpu" or not have_numba()):
        path = "torch"
    if path == "torch":
        from fedcore.coreset.medoids.tensor import points_of, solve_tensor

        chosen = points_of(metric.take(points.first), points.counts, classes)
        solution = solve_tensor(chosen, k, begin, LARGEST_SHARE, deadline)
    else:
        problem = _problem(metric, points, k, begin, start is not None, classes, threads)
        solution = _solve_compiled(problem, path, deadline)
    return _answer(metric, points, solution)


def _checked_labels(
    labels: Tensor | NDArray[np.integer], count: int, device: torch.device
) -> Tensor:
    values = torch.as_tensor(labels)
    if values.shape != (count,):
        raise ValueError(
            f"labels must be one integer a point ({count} points), got shape {tuple(values.shape)}"
        )
    if values.is_floating_point() or values.is_complex():
        raise ValueError(f"labels must be integers, got {values.dtype}")
    return values.to(device=device, dtype=torch.int64)


def _all_distinct(points: Distinct, k: int) -> Medoids:
    """There are no more than k different points: each is chosen, then second copies."""
    chosen = torch.zeros(len(points.group), dtype=torch.bool)
    chosen[points.first.cpu()] = True
    spare = (~chosen).nonzero()[:, 0]
    chosen[spare[: k - int(chosen.sum())]] = True
    indices = chosen.nonzero()[:, 0]
    group = points.group.cpu()
    slot = torch.empty(len(points.first), dtype=torch.int64)
    slot[group[indices].flip(0)] = torch.arange(len(indices)).flip(0)  # the first copy serves
    assignment = slot[group]
    assignment[indices] = torch.arange(len(indices))
    return Medoids(indices.numpy(), assignment.numpy(), 0.0, 1.0, 0, "exact", True)


def _start(
    points: Distinct,
    k: int,
    start: Tensor | NDArray[np.integer] | None,
    classes: Tensor | None,
) -> NDArray[np.int64]:
    """Return k different positions: given ones first, then one a label, then by hash order."""
    wanted: list[NDArray[np.int64]] = []
    if start is None and classes is None:
        return np.arange(k)
    if start is not None:
        given = torch.as_tensor(start).to(torch.int64).cpu()
        if len(given) and not 0 <= int(given.min()) <= int(given.max()) < len(points.group):
            raise ValueError(
                f"start must hold indices between 0 and {len(points.group) - 1}, "
                f"got {int(given.min())} to {int(given.max())}"
            )
        wanted.append(points.group.cpu()[given].numpy())
    if classes is not None:
        wanted.insert(0, np.unique(classes.cpu().numpy(), return_index=True)[1])
    wanted.append(np.arange(len(points.first)))
    merged = np.concatenate(wanted)
    _, position = np.unique(merged, return_index=True)
    return np.sort(merged[np.sort(position)[:k]]).astype(np.int64)


def _glimpse(
    metric: Metric,
    points: Distinct,
    start: NDArray[np.int64],
    classes: Tensor | None,
    path: str,
    deadline: Deadline,
) -> Solution:
    from fedcore.coreset.medoids.glimpse import glimpse
    from fedcore.coreset.medoids.tensor import points_of

    chosen = points_of(metric.take(points.first), points.counts, classes)
    return glimpse(chosen, start, "sparse" if path == "auto" else path, deadline)


def _problem(
    metric: Metric,
    points: Distinct,
    k: int,
    start: NDArray[np.int64],
    warm: bool,
    classes: Tensor | None,
    threads: int,
) -> Problem:
    from fedcore.coreset.medoids.geometry import rows_of
    from fedcore.coreset.medoids.rotation import turned
    from fedcore.coreset.medoids.solution import Problem

    rows = rows_of(turned(metric.take(points.first)))
    weights = points.counts.cpu().numpy().astype(np.float32)
    labels = None if classes is None else classes.cpu().numpy()
    return Problem(rows, weights, k, start, warm, labels, threads)


def _solve_compiled(problem: Problem, path: str, deadline: Deadline) -> Solution:
    """Choose among the compiled paths; "auto" by what is fastest, "sparse" where lists reach."""
    from fedcore.coreset.medoids.dense import solve_exact
    from fedcore.coreset.medoids.few import solve_few
    from fedcore.coreset.medoids.sparse import solve_sparse
    from fedcore.coreset.medoids.stream import solve_streamed

    count = len(problem.weights)
    width = sum(factor.shape[1] for factor in problem.rows[:2])
    reaches = problem.k * LARGEST_SHARE >= count
    smallest = SMALL if reaches or deadline.moment is not None else MANY
    if problem.k > 1 and path != "exact" and (count > smallest or (path == "sparse" and reaches)):
        return solve_sparse(problem, deadline) if reaches else solve_few(problem, deadline)
    # A matrix pays for itself where a distance costs more than reading one from memory.
    if count <= (16_384 if width > 64 else 4_096):
        return solve_exact(problem, deadline)
    return solve_streamed(problem, deadline)


def _time_to_answer(metric: Metric) -> float:
    """Estimate, from every 16th point, the seconds that the objective and bookkeeping take."""
    begin = time.monotonic()
    some = torch.arange(0, len(metric), 16, device=metric.factors[0].device)
    float(metric.between(some, some.flip(0)).sum())
    return 24.0 * (time.monotonic() - begin)


def _answer(metric: Metric, points: Distinct, solution: Solution) -> Medoids:
    """Translate positions among distinct points back to indices of the input."""
    first, group = points.first.cpu().numpy(), points.group.cpu().numpy()
    chosen = first[solution.medoids]
    order = np.argsort(chosen)
    slot = np.empty(len(order), np.int64)
    slot[order] = np.arange(len(order))
    indices = chosen[order]
    assignment = slot[solution.nearest][group]
    device = metric.factors[0].device
    everyone = torch.arange(len(assignment), device=device)
    distances = metric.between(everyone, torch.from_numpy(indices[assignment]).to(device))
    return Medoids(
        indices,
        assignment,
        float(distances.sum()),
        solution.certified,
        solution.swaps,
        solution.path,
        solution.finished,
    )
