"""k-medoids: the k points that serve all others best, Σ_j min_k d_jk (Eq. 5 of the paper).

Medoids are distinct points as long as there are enough (equal ones are merged before), and each
serves itself. Points are ordered by a hash of their contents: permuting the input permutes the
answer, but for which of *equal* points stands for them (the first). A seed gives one answer.
"""

import time
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.compiled import have_numba
from fedcore.coreset.medoids.problem import Medoids, Over, Problem
from fedcore.coreset.metric import Array, Euclidean, Indices, Metric, pair_distances, relative
from fedcore.seeding import words

SMALL = 700  # points up to which all distances are faster than neighbour lists (measured)
SMALL_FEW = 4096  # ... and so far where medoids are few,
ALONE = 10_000  # or where there is one, for which all have to be tried once
SHORT = 40  # coordinates that are not worth turning (``principal``),
SHORT_OF_FEW = 128  # and among so few points that all are compared at once
LARGEST_CLUSTER = 40  # n / k, up to which lists of neighbours reach; beyond, clusters outgrow them
MOST_ROUNDED = 4096  # points up to which rounded numbers lead: of more, some always round apart
NUMBA = have_numba()
HASH = words("medoids", "hash")  # the random stream of keys, but for its seed
LOW_40, LOW_24 = (1 << 40) - 1, (1 << 24) - 1  # bits of joined hashes
# Shifts and factors that spread what keys differ in over all their bits.
MIXED = (31, -7046029254386353131), (29, -4658895280553007687)


def path_for(count: int, k: int) -> str:
    """Say which way is taken with numba: all distances (``exact``) where they are few, lists of
    neighbours for many medoids (``sparse``), lists of candidates for few (``sampled``).
    """
    many = k * LARGEST_CLUSTER >= count
    if count <= (ALONE if k == 1 else SMALL if many else SMALL_FEW):
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
    over: Over = None,
    path: str = "auto",
) -> Medoids:
    """Choose k medoids among the points of a space, or of Euclidean ``space`` [n, d].

    With ``labels`` [n] a point is only served by a medoid of its own label. ``start`` are medoids
    to begin with. After ``seconds``, or when ``over`` says so, the best so far are returned, at the
    worst k drawn at random; finding everybody's nearest may take longer. ``path`` is "exact",
    "sparse", "sampled", "torch", or "auto" (``path_for``).
    """
    if seconds is not None:
        end = time.monotonic() + seconds
        over = lambda: time.monotonic() >= end  # noqa: E731
    metric = space if isinstance(space, Metric) else Euclidean(space)
    classes = None if labels is None else torch.as_tensor(labels).cpu().numpy()
    single = metric.single()
    factors = [factor.cpu().numpy() for factor in single.factors]
    points = distinct(factors, seed, classes)
    if k >= len(points.first):
        # There are no more than k different points: each is chosen, then second copies.
        others = np.setdiff1d(np.arange(len(metric)), points.first)
        indices = np.sort(np.append(points.first, others[: k - len(points.first)]))
        return Medoids(indices, _assignment(points, indices, points.first), "exact")
    classes = None if classes is None else classes[points.first]
    begin = _start(points, k, start, classes)
    factors = [factor[points.first] for factor in factors]
    if path == "auto":
        path = path_for(len(points.first), k) if NUMBA else "torch"
    if path == "torch":
        from fedcore.coreset.medoids.plain import solve_plain

        own = single.of(map(torch.from_numpy, factors), single.bias)
        return _answer(metric, points, solve_plain(own, points.counts, classes, begin, over))
    from fedcore.coreset.medoids import exact, layout, principal, sampled, sparse

    short = SHORT_OF_FEW if len(points.first) <= SMALL else SHORT
    if len(factors) == 1 and factors[0].shape[1] > short:
        factors = [principal.turned(factors[0])]
    rows, weights = layout.rows_of(factors, bias=single.bias), points.counts.astype(np.float32)
    problem = Problem(rows, weights, k, begin, start is not None, classes)
    searches = {"sparse": sparse.searched, "sampled": sampled.searched}
    if path not in searches:
        return _answer(metric, points, exact.solve_exact(problem, over))
    return _answer(metric, points, sparse.best_in_time(problem, over, path, searches[path]))


@dataclass(frozen=True, slots=True)
class Distinct:
    """The u different points among n: who stands for whom."""

    first: Indices  # [u] the lowest index of each point
    group: Indices  # [n] which of the u points an index is
    counts: Indices  # [u] how many equal points


def distinct(rows: list[NDArray[np.float32]], seed: int, labels: Indices | None = None) -> Distinct:
    """Group equal points (of equal label, if there are labels) and order the groups by hash.

    Everything after that sees the same numbers however the input was permuted, and in what is as
    good as random order. The hash that leads is of *rounded* numbers, the next of numbers rounded
    less: a local search that begins in another order ends elsewhere, and a rounding error must not
    do that.
    """
    if NUMBA:
        from fedcore.coreset.medoids.kernels import add_keys
    else:
        from fedcore.coreset.medoids.plain import add_keys
    generator = np.random.default_rng([seed, *HASH])
    small = len(rows[0]) <= MOST_ROUNDED
    keys = np.zeros((3 if small else 1, len(rows[0])), np.int64)
    for values in rows:
        add_keys(keys, values, _factors(generator, values.shape[1]))
    if labels is not None:
        # A label is one more column: its bits take part, its value is never computed with.
        low = labels.astype(np.int32)[:, None].view(np.float32)
        add_keys(keys[-1:], low, _factors(generator, 1))
        rows = [*rows, labels.astype(np.int64)[:, None].view(np.float32)]
    for shift, factor in MIXED:
        keys ^= keys >> shift
        keys *= factor
    joined = keys[-1]
    if small:  # 24 bits of the coarse hash, then 16 of the fine one, then 24 of the exact one
        joined = (keys[0] & ~LOW_40) | (keys[1] & LOW_40 & ~LOW_24) | (keys[2] & LOW_24)
    order, fresh, certain = _sorted(joined, rows)
    if small and not certain:  # a collision: the exact hash alone has more bits
        order, fresh, _ = _sorted(keys[-1], rows)
    number = np.cumsum(fresh) - 1
    group = np.empty_like(order)
    group[order] = number
    return Distinct(order[fresh], group, np.bincount(number))


def _sorted(
    keys: Indices, rows: list[NDArray[np.float32]]
) -> tuple[Indices, NDArray[np.bool_], bool]:
    """Order by keys, which of them begin a new point, and whether equal keys were equal points."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    fresh = np.ones(len(order), np.bool_)
    suspects = np.flatnonzero(keys[1:] == keys[:-1])
    if not len(suspects):
        return order, fresh, True
    # Equal hashes are checked, so a collision cannot merge two different points.
    same = np.ones(len(suspects), np.bool_)
    for values in rows:
        bits = values.view(np.int32)
        same &= (bits[order[suspects]] == bits[order[suspects + 1]]).all(axis=1)
    fresh[suspects + 1] = ~same
    return order, fresh, bool(same.all())


def _factors(generator: np.random.Generator, width: int) -> Indices:
    return generator.integers(-(1 << 62), 1 << 62, size=width) * 2 + 1


def _assignment(points: Distinct, indices: Indices, served: Indices) -> Indices:
    """Return everybody's place in sorted ``indices``; ``served`` [u] serve the distinct points."""
    assignment = np.searchsorted(indices, served)[points.group]
    # A medoid serves itself, even where rounding leaves no distance to another one.
    assignment[indices] = np.arange(len(indices))
    return assignment


def _start(
    points: Distinct, k: int, start: Tensor | NDArray[np.integer] | None, classes: Indices | None
) -> Indices:
    """Return k different positions: given ones first, then one a label, then by hash order."""
    if start is None and classes is None:
        return np.arange(k)
    wanted = [np.arange(len(points.first))]
    if start is not None:
        wanted.insert(0, points.group[torch.as_tensor(start).to(torch.int64).cpu().numpy()])
    if classes is not None:
        wanted.insert(0, np.unique(classes, return_index=True)[1])
    merged = np.concatenate(wanted)
    _, position = np.unique(merged, return_index=True)
    return np.sort(merged[np.sort(position)[:k]]).astype(np.int64)


def _answer(metric: Metric, points: Distinct, solution: Medoids) -> Medoids:
    """Translate positions among distinct points back to indices of the input."""
    chosen = points.first[solution.indices]
    indices = np.sort(chosen)
    assignment = _assignment(points, indices, chosen[solution.assignment])
    served, values, error = indices[assignment], metric.factors[0], None
    if NUMBA and len(metric.factors) == 1 and values.device.type == "cpu":
        from fedcore.coreset.medoids.kernels import measured

        total, gap, whole, length = measured(values.numpy(), served)
        error = relative(gap, whole, length, len(served))
    else:
        everyone = torch.arange(len(served), device=values.device)
        pairs = pair_distances(metric, everyone, torch.from_numpy(served).to(values.device))
        total = float(pairs.sum())
    return replace(solution, indices=indices, assignment=assignment, objective=total, error=error)
