"""An answer for next to no time: the start as it is, and for everybody the best medoid looked at.

Laying points out for the other paths takes longer than some budgets are. Here each point is
compared with as many medoids as there is time for, piece by piece against the clock; who is not
reached is served by any medoid of its label. The medoids are k points drawn at random, for the
points come in the order of a hash.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.solution import Solution
from fedcore.coreset.medoids.tensor import CHUNK, Points

SAMPLE = 256  # points and medoids whose comparison is timed


def glimpse(points: Points, start: NDArray[np.int64], path: str, deadline: Deadline) -> Solution:
    """Return the start, in ascending order, and the assignment there is time for."""
    medoids = torch.from_numpy(np.sort(start)).to(points.weights.device)
    slot = _anybody(points, medoids)
    everyone = torch.arange(len(points), device=medoids.device)
    seen = _spread(medoids, SAMPLE)
    begin = time.monotonic()
    slot[:SAMPLE] = _nearest(points, everyone[:SAMPLE], medoids, seen, slot[:SAMPLE])
    pairs = len(seen) * min(SAMPLE, len(points)) / max(time.monotonic() - begin, 1e-7)
    seen = _spread(medoids, int(0.8 * deadline.left() * pairs / len(points)))
    for first, last in deadline.pieces(len(points), max(1, CHUNK // 8 // len(seen))):
        part = slice(first, last)
        slot[part] = _nearest(points, everyone[part], medoids, seen, slot[part])
    slot[medoids] = torch.arange(len(medoids), device=slot.device)
    return Solution(medoids.cpu().numpy(), slot.cpu().numpy(), 0.0, 0, path, False)


def _spread(medoids: Tensor, number: int) -> Tensor:
    """Return up to ``number`` slots, at least one, at equal steps."""
    number = max(1, min(number, len(medoids)))
    return torch.arange(number, device=medoids.device) * len(medoids) // number


def _anybody(points: Points, medoids: Tensor) -> Tensor:
    """Return the slot of any medoid of each point's label, [n]."""
    if points.labels is None:
        return torch.arange(len(points), device=medoids.device) % len(medoids)
    labels, order = points.labels[medoids].sort()
    return order[torch.searchsorted(labels, points.labels)]


def _nearest(points: Points, some: Tensor, medoids: Tensor, seen: Tensor, known: Tensor) -> Tensor:
    """Return the slot of the nearest medoid among those ``seen``, or the one that is ``known``."""
    least, order = points.between(some, medoids[seen]).min(dim=1)
    # Those of other labels are far; and where a comparison is cheap, the known one is worth it.
    first, second = some, medoids[known]
    current = points.metric.between(first, second).float()
    return torch.where((least < points.far) & (least <= current), seen[order], known)
