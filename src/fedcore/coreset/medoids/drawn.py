"""The torch path with few medoids: rounds of swaps among candidates, as in ``few``.

Every point lists the candidates nearest to it, many swaps are made at a time (``together``), and
new candidates are drawn: the points nearest to each medoid, and others at equal steps along the
objective, which is drawing in proportion to the distance without chance.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.solution import candidate_number
from fedcore.coreset.medoids.tensor import OutOfTime, Points, nearest_of
from fedcore.coreset.medoids.together import swap_together

BEST = 8  # nearest points of a medoid that are candidates
ROUNDS = 8  # at most
ENOUGH = 2e-3  # of the objective: what a round must gain for another to follow


def swap_drawn(points: Points, medoids: Tensor, deadline: Deadline) -> tuple[Tensor, int, bool]:
    """Swap among candidates in rounds; returns medoids, swaps, finished."""
    number = candidate_number(len(medoids), len(points))
    swaps, before = 0, float("inf")
    try:
        for turn in range(ROUNDS):
            candidates, total = _draw(points, medoids, number, BEST if turn else 0, deadline)
            if total > before * (1 - ENOUGH):
                break
            before = total
            medoids, made, _, finished = swap_together(points, medoids, deadline, candidates)
            swaps += made
            if not finished:
                return medoids, swaps, False
    except OutOfTime:
        return medoids, swaps, False
    return medoids, swaps, True


def _draw(
    points: Points, medoids: Tensor, number: int, best: int, deadline: Deadline
) -> tuple[Tensor, float]:
    """Return about ``number`` candidates, ascending, and the objective of the medoids."""
    everyone = torch.arange(len(points), device=medoids.device)
    distances = nearest_of(points, everyone, medoids, 1, deadline)[1][:, 0].double()
    around = medoids
    if best:
        around = torch.unique(nearest_of(points, medoids, everyone, best + 1, deadline)[0])
    costs = distances * points.weights.double()
    # In 64-bit integers, whose sums do not depend on the order of the additions.
    scale = 2.0**62 / (float(points.weights.double().sum()) * max(points.far, 1e-30))
    sums = (costs * scale).round().long().cumsum(0)
    left = max(1, number - len(around))
    steps = (torch.arange(left, device=sums.device) + 0.5) * (float(sums[-1]) / left)
    drawn = torch.searchsorted(sums, steps.round().long()).clamp(max=len(points) - 1)
    return torch.unique(torch.cat((medoids, around, drawn))), float(costs.sum())
