"""The torch path: FasterPAM in tensor operations alone, where numba is missing; on any device.

Of a chunk of candidates, those that seem to help (``exact`` has the equation) are weighed again one
by one. Sums over clusters are taken in 64-bit integers, which do not depend on the order.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.coreset.medoids.problem import COARSE, FAR, FINE, Medoids, Over
from fedcore.coreset.metric import Metric, distances

CHUNK = 1 << 21  # distances computed at a time
UNITS = 2.0**52  # that the objective is counted in where it is summed up in whole numbers


class Plain:
    """Points, their medoids and everybody's nearest two."""

    def __init__(
        self, metric: Metric, weights: Tensor, labels: Tensor | None, start: Tensor
    ) -> None:
        self.metric, self.weights, self.labels = metric, weights.double(), labels
        self.medoids = start.clone()
        everyone = torch.arange(len(metric), device=start.device)
        self.chunks = torch.split(everyone, max(1, CHUNK // len(metric)))
        self.far = 2.0 * float(distances(metric, slice(None), everyone[:1]).max()) + 1e-30
        if labels is not None:
            self.far *= 2 * len(metric)  # a label without a medoid must cost more than all else
        self.near = torch.empty_like(everyone)  # slots
        self.second = torch.empty_like(everyone)
        self.near_distance, self.second_distance = self.weights.clone(), self.weights.clone()
        for part in torch.split(everyone, max(1, CHUNK // len(start))):
            self._assign(part)

    def between(self, first: Tensor, second: Tensor | slice) -> Tensor:
        """Return distances [a, b] in float64; those between labels exceed all others together."""
        found = distances(self.metric, first, second).double()
        if self.labels is None:
            return found
        same = self.labels[first][:, None] == self.labels[second][None]
        return torch.where(same, found, self.far)

    def _assign(self, points: Tensor) -> None:
        """Find the two nearest medoids of some points; ties go to the lower slot."""
        reach = self.between(points, self.medoids)
        near_distance, near = _least(reach)
        reach[torch.arange(len(points), device=reach.device), near] = self.far
        second_distance, second = _least(reach)
        self.near[points], self.near_distance[points] = near, near_distance
        self.second[points], self.second_distance[points] = second, second_distance

    def changes(self, reach: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slot that each candidate should take, and the change; reach is [c, n]."""
        near, second, k = self.near_distance, self.second_distance, len(self.medoids)
        shared = (self.weights * (reach - near).clamp(max=0)).sum(1)
        saved = self.weights * (torch.maximum(reach, near) - second).clamp(max=0)
        both = torch.cat((saved, (self.weights * (second - near))[None]))
        scale = UNITS / max(float(both.abs().sum(1).max()), 1e-300)
        sums = torch.zeros(len(both), k, dtype=torch.int64, device=reach.device)
        sums.index_add_(1, self.near, (both * scale).round().long())
        change, slot = _least((sums[:-1] + sums[-1]).double() / scale)
        # So much may be rounding, which must not look like a gain.
        return slot, change + shared + 4 * len(self.near) / scale

    def swap(self, slot: int, candidate: int, reach: Tensor) -> None:
        """Put a candidate with distances [n] into a slot."""
        self.medoids[slot] = candidate
        closer = reach < self.second_distance
        who = ((self.near == slot) | (self.second == slot) | closer).nonzero()[:, 0]
        for part in torch.split(who, max(1, CHUNK // len(self.medoids))):
            self._assign(part)


def _least(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the least of each row and where it stands first, on any device."""
    least = values.min(dim=1).values
    return least, (values == least[:, None]).int().argmax(dim=1)


def solve_plain(
    space: Metric,
    points: NDArray[np.int64],
    counts: NDArray[np.int64],
    classes: NDArray[np.int64] | None,
    start: NDArray[np.int64],
    over: Over | None = None,
) -> Medoids:
    """Swap among ``points``, each ``counts`` samples, until none helps or the time is up."""
    device = space.factors[0].device
    chosen, weights, first = (torch.from_numpy(v).to(device) for v in (points, counts, start))
    labels = None if classes is None else torch.from_numpy(classes).to(device)
    metric = space.take(chosen)
    state = Plain(metric, weights, labels, first)
    swaps, quiet, turn = 0, 0, 0
    while quiet < len(state.chunks) and not (over is not None and over()):
        candidates = state.chunks[turn % len(state.chunks)]
        turn, quiet = turn + 1, quiet + 1
        reach = state.between(candidates, slice(None))
        least = -1e-9 * float((state.weights * state.near_distance).sum())
        _, change = state.changes(reach)
        change[torch.isin(candidates, state.medoids)] = 0.0
        for row in (change < least).nonzero()[:, 0].tolist():
            slot, gain = state.changes(reach[row : row + 1])
            if float(gain) < least:
                state.swap(int(slot), int(candidates[row]), reach[row])
                swaps, quiet = swaps + 1, 0
    medoids = state.medoids.sort().values
    final = Plain(metric, weights, labels, medoids)
    near, finished = final.near.cpu().numpy(), quiet >= len(state.chunks)
    return Medoids(medoids.cpu().numpy(), near, "torch", swaps=swaps, finished=finished)


def add_keys(
    keys: NDArray[np.int64], values: NDArray[np.float32], factors: NDArray[np.int64]
) -> None:
    """Add random linear forms Σ_t factor_t word_t of each row [n, d] to ``keys`` [1 or 3, n].

    Words are the 32 bits of numbers; with three keys, before that numbers rounded to COARSE and to
    FINE bits of how far they lie from their mean, in the mean: of what should be zero, the size is
    a random rounding error.
    """
    words = [values.view(np.int32)]
    if len(keys) > 1:
        # In float64, or the order of rows would show.
        steps = values - values.mean(axis=0, dtype=np.float64).astype(np.float32)
        away = float(np.abs(steps).sum(dtype=np.float64)) / max(1, steps.size)
        # A power of two, which rounding errors leave as it is.
        steps *= np.float32(2.0 ** min(FINE - math.frexp(away)[1], 127))
        steps = np.clip(steps, -FAR, FAR)
        words = [np.rint(steps * np.float32(2.0 ** (COARSE - FINE))), np.rint(steps), *words]
    for row, word in enumerate(words):
        for begin in range(0, values.shape[1], 64):  # 64-bit copies of a slice, not of everything
            part = word[:, begin : begin + 64].astype(np.int64)
            part ^= part >> 15  # trailing zeros of round numbers would carry through the product
            keys[row] += part @ factors[begin : begin + 64]
