"""The torch path: k-medoids in tensor operations alone, where the tensors are.

Two forms. Few medoids (or few points): chunks of candidates against all points, the best swap of
a chunk at a time. Otherwise neighbour lists as in the sparse path, and many swaps at a time: a
swap touches the points that its new medoid comes near to and those that its old one served; swaps
that touch no common point do not interact, so their changes add up and they are made together.

Sums over groups are taken in 64-bit integers: those do not depend on the order of the additions,
so a seed gives one answer on a GPU, too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.coreset.medoids.clock import Deadline, Pace
from fedcore.coreset.medoids.solution import Solution
from fedcore.coreset.metric import Metric

CHUNK = 1 << 23  # distances computed at a time
MANY = 4096  # points above which few medoids are sought among candidates only
FEW = 1000  # points up to which all pairs are looked at


class OutOfTime(Exception):
    """The work at hand cannot be finished before its deadline."""


@dataclass(frozen=True, slots=True)
class Points:
    """Distinct points, how many each stands for, and the labels they must keep to."""

    metric: Metric
    weights: Tensor  # [n] float32
    labels: Tensor | None  # [n]
    far: float  # no less than any distance inside a label

    def __len__(self) -> int:
        return len(self.metric)

    def between(self, first: Tensor, second: Tensor) -> Tensor:
        """Return distances [a, b], by differences; those between labels are ``far``."""
        left, right = self.metric.factors
        distances = _cdist(left[first], left[second])
        if right is not None:
            near, inputs = distances.square(), _cdist(right[first], right[second]).square()
            rows = [_norms(left, 0.0, which) for which in (first, second)]
            more = [_norms(right, float(self.metric.bias), which) for which in (first, second)]
            sums = [(a[:, None] + b[None]) / 2 for a, b in (rows, more)]
            gaps = [a[:, None] - b[None] for a, b in (rows, more)]
            squared = near * (sums[1] - inputs / 4) + inputs * (sums[0] - near / 4)
            distances = (squared + gaps[0] * gaps[1] / 2).clamp(min=0).sqrt()
        if self.labels is not None:
            same = self.labels[first][:, None] == self.labels[second][None]
            distances = torch.where(same, distances, self.far)
        return distances


def _norms(values: Tensor, bias: float, which: Tensor) -> Tensor:
    return values[which].square().sum(1) + bias


def _cdist(first: Tensor, second: Tensor) -> Tensor:
    return torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist")


def points_of(metric: Metric, weights: Tensor, labels: Tensor | None) -> Points:
    """Bundle what the solver needs of distinct points."""
    left, right = metric.factors
    norm = left.double().square().sum(1)
    if right is not None:
        norm = norm * (right.double().square().sum(1) + float(metric.bias))
    far = 2.001 * float(norm.max().sqrt()) + 1e-30
    if labels is not None:
        far *= 2 * len(left)  # a label without a medoid must cost more than all else together
    return Points(metric, weights.float(), labels, far)


def nearest_of(
    points: Points, queries: Tensor, members: Tensor, k: int, deadline: Deadline | None = None
) -> tuple[Tensor, Tensor]:
    """Return the k nearest ``members`` of each query: their numbers and distances, [m, k].

    Raises:
        OutOfTime: If a deadline was given and has passed.
    """
    found: list[tuple[Tensor, Tensor]] = []
    for part in torch.split(queries, max(1, CHUNK // len(members))):
        if deadline is not None and deadline.over():
            raise OutOfTime
        distances, order = points.between(part, members).topk(k, dim=1, largest=False)
        # topk leaves open which of equal distances comes first: the lower number shall.
        order, by_number = members[order].sort(dim=1)
        distances, by_distance = distances.gather(1, by_number).sort(dim=1, stable=True)
        found.append((order.gather(1, by_distance), distances))
    numbers, lengths = zip(*found, strict=True)
    return torch.cat(numbers), torch.cat(lengths)


def solve_tensor(
    points: Points, k: int, start: NDArray[np.int64], share: int, deadline: Deadline
) -> Solution:
    """Swap from ``start`` until swaps gain next to nothing, or the time is up.

    ``share`` is the largest n / k that neighbour lists serve.
    """
    device = points.weights.device
    everyone = torch.arange(len(points), device=device)
    medoids = torch.from_numpy(start).to(device)
    certified, swaps, finished = 1.0, 0, True
    work = deadline
    if deadline.moment is not None:
        assigning = _time_to_assign(points, everyone, medoids)
        if assigning > deadline.left():
            from fedcore.coreset.medoids.glimpse import glimpse

            return glimpse(points, start, "torch", deadline)
        work = deadline.earlier(assigning)
    if k == 1:
        medoids, finished = _best_single(points, medoids, work)
    elif len(points) > MANY and k * share < len(points):
        from fedcore.coreset.medoids.drawn import swap_drawn

        medoids, swaps, finished = swap_drawn(points, medoids, work)
        certified = 0.0
    elif len(points) <= FEW or k * share < len(points):
        medoids, swaps, finished = _best_of_starts(points, medoids, work)
    else:
        from fedcore.coreset.medoids.together import swap_together

        medoids, swaps, certified, finished = swap_together(points, medoids, work)
    medoids = medoids.sort().values
    owner = nearest_of(points, everyone, medoids, 1)[0][:, 0]
    nearest = torch.searchsorted(medoids, owner)
    return Solution(
        medoids.cpu().numpy(), nearest.cpu().numpy(), certified, swaps, "torch", finished
    )


def _time_to_assign(points: Points, everyone: Tensor, medoids: Tensor) -> float:
    """Estimate, from a few points, the seconds it takes to find everybody's medoid."""
    sample = everyone[:: max(1, len(points) // 64)]
    begin = time.monotonic()
    nearest_of(points, sample, medoids, 1)[0].cpu()
    return 1.2 * (time.monotonic() - begin) * len(points) / len(sample)


def _best_single(points: Points, medoid: Tensor, deadline: Deadline) -> tuple[Tensor, bool]:
    everyone = torch.arange(len(points), device=points.weights.device)
    best, least = medoid, float("inf")
    for begin, end in deadline.pieces(len(points), max(1, CHUNK // len(points))):
        costs = points.between(everyone[begin:end], everyone).double() @ points.weights.double()
        if float(costs.min()) < least:
            best, least = everyone[begin + int(costs.argmin())][None], float(costs.min())
    return best, not deadline.over()


def _best_of_starts(
    points: Points, medoids: Tensor, deadline: Deadline
) -> tuple[Tensor, int, bool]:
    """Swap from several starts if there are so few medoids that one bad place costs percents."""
    count, k = len(points), len(medoids)
    again = k <= 32 and count <= 4 * FEW and points.labels is None
    everyone = torch.arange(count, device=medoids.device)
    best, least, total_swaps, finished = medoids, float("inf"), 0, True
    for start in range(3 if again else 1):
        # Points come in random order, so the next k of them are another random start.
        begin = medoids if start == 0 else (everyone[:k] + start * k) % count
        found, swaps, ended = _swap_one_by_one(points, begin, deadline)
        distances = points.between(everyone, found).min(1).values.double()
        value = float((distances * points.weights.double()).sum())
        total_swaps, finished = total_swaps + swaps, finished and ended
        if value < least:
            best, least = found, value
    return best, total_swaps, finished


def _swap_one_by_one(
    points: Points, medoids: Tensor, deadline: Deadline
) -> tuple[Tensor, int, bool]:
    """Take the best swap of each chunk of candidates until a pass over all finds none."""
    everyone = torch.arange(len(points), device=points.weights.device)
    weights = points.weights.double()
    medoids, count = medoids.clone(), len(points)
    # In float64 from here on: swaps that only seem to help by rounding would go round in circles.
    to_medoids = points.between(everyone, medoids).double()  # [n, k]
    size = max(1, min(16 if count <= FEW else 256, CHUNK // count))
    chunks = torch.split(everyone, size)
    swaps, quiet, turn = 0, 0, 0
    pace = Pace(deadline)
    while quiet < len(chunks):
        if not pace.allows_another():
            return medoids, swaps, False
        candidates = chunks[turn]
        (near, second), slots = (values.T for values in to_medoids.topk(2, 1, largest=False))
        slot = slots[0].contiguous()
        gap = weights * (second - near)
        removal = torch.zeros(len(medoids), dtype=torch.float64, device=gap.device)
        removal = removal.index_add(0, slot, gap)
        distances = points.between(candidates, everyone).double()  # [c, n]
        shared = ((distances - near).clamp(max=0) * weights).sum(1)
        closer = torch.where(distances < near, near - second, (distances - second).clamp(max=0))
        gain = torch.zeros(len(candidates), len(medoids), dtype=torch.float64, device=gap.device)
        gain.index_add_(1, slot, closer * weights)
        change = gain + removal + shared[:, None]
        best = int(change.argmin())
        total = float((weights * near).sum())
        turn, quiet = (turn + 1) % len(chunks), quiet + 1
        if float(change.view(-1)[best]) < -1e-7 * total:
            row, out = divmod(best, len(medoids))
            medoids[out] = candidates[row]
            to_medoids[:, out] = distances[row]
            swaps, quiet = swaps + 1, 0
    return medoids, swaps, True
