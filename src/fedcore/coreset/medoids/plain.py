"""The torch path: FasterPAM in tensor operations alone, where numba is missing; on any device.

Chunks of candidates against all points: for a whole chunk the change that each would bring
(``exact`` has the equation), then those that seem to help one by one, each weighed again, for the
swaps before it may have changed its worth. Sums over clusters are taken in 64-bit integers: those
do not depend on the order of the additions, so a seed gives one answer on a GPU, too.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.coreset.medoids.problem import Medoids, Over
from fedcore.coreset.metric import Metric, distances

CHUNK = 1 << 21  # distances computed at a time
COARSE, FINE = 7, 12  # bits of a number that the leading hash sees, and the one behind it
FAR = 2.0**30  # steps from the mean, beyond which they see no difference
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
        stale = (self.near == slot) | (self.second == slot)
        nearer = (reach < self.near_distance) & ~stale
        nearest = torch.full_like(self.near, slot)
        second = (reach < self.second_distance) & ~stale & ~nearer
        self.second = torch.where(nearer, self.near, torch.where(second, nearest, self.second))
        self.second_distance = torch.where(
            nearer, self.near_distance, torch.where(second, reach, self.second_distance)
        )
        self.near = torch.where(nearer, nearest, self.near)
        self.near_distance = torch.where(nearer, reach, self.near_distance)
        for part in torch.split(stale.nonzero()[:, 0], max(1, CHUNK // len(self.medoids))):
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
    """Swap from ``start`` until a pass over all candidates changes nothing, or the time is up.

    Candidates are some ``points`` of the space, each with the number of samples it stands for.
    """
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


def add_words(
    keys: NDArray[np.int64], values: NDArray[np.float32], factors: NDArray[np.int64]
) -> None:
    """Add a random linear form of each row to ``keys`` [v, n]: Σ_t factor_t word_t.

    The last key sees the 32 bits of every number. If there are three, the first sees it rounded to
    COARSE bits and the second to FINE ones: bits of how far numbers lie from their mean, in the
    mean, and not of each one's own size, for what should be zero is a rounding error, whose size
    is random.
    """
    words = [values.view(np.int32)]
    if len(keys) == 3 and values.size:
        # In float64, or the mean would depend on the order of the rows.
        centred = values - values.mean(axis=0, dtype=np.float64).astype(np.float32)
        # A power of two, which rounding errors leave as it is.
        _, exponent = math.frexp(float(np.abs(centred).mean(dtype=np.float64)))
        steps = (centred * np.float32(2.0 ** min(FINE - exponent, 127))).clip(-FAR, FAR)
        coarse = steps * np.float32(2.0 ** (COARSE - FINE))
        words = [np.rint(coarse).astype(np.int32), np.rint(steps).astype(np.int32), *words]
    for key, word in zip(range(-len(words), 0), words, strict=True):
        for begin in range(0, word.shape[1], 64):  # 64-bit copies of a slice, not of everything
            part = word[:, begin : begin + 64].astype(np.int64)
            part ^= part >> 15  # trailing zeros of round numbers would carry through the product
            keys[key] += part @ factors[begin : begin + 64]
