"""The torch path: FasterPAM in array operations, where numba is missing, in O(n) memory.

A candidate's distances are computed when it is tried; ``exact`` has the equation.
"""

import math

import numpy as np
import torch

from fedcore.coreset.medoids.problem import COARSE, FAR, FINE, Medoids, Over
from fedcore.coreset.metric import Doubles, Floats, Indices, Metric, distances

CHUNK = 1 << 21  # distances computed at a time


def solve_plain(
    metric: Metric, weights: Indices, labels: Indices | None, start: Indices, over: Over
) -> Medoids:
    """Swap among points, each ``weights`` samples, until none helps or the time is up."""
    count, k, medoids, everyone = len(metric), len(start), start.copy(), np.arange(len(metric))
    far = 2.0 * float(distances(metric, slice(None), torch.zeros(1, dtype=torch.int64)).max())
    # A label without a medoid must cost more than all else.
    far = (far + 1e-30) * (1 if labels is None else 2 * count)
    near, reach = np.empty((2, count), np.int64), np.empty((2, count))  # the nearest two: slots

    def between(first: Indices, second: Indices) -> Doubles:
        found = distances(metric, torch.from_numpy(first), torch.from_numpy(second))
        away: Doubles = found.double().numpy()
        if labels is None:
            return away
        return np.where(labels[first][:, None] == labels[second], away, far)

    def assign(points: Indices) -> None:
        for part in np.array_split(points, 1 + len(points) * k // CHUNK):
            found, rows = between(part, medoids), np.arange(len(part))
            for rank in range(2):  # ties go to the lower slot
                near[rank, part] = slots = found.argmin(axis=1)
                reach[rank, part], found[rows, slots] = found[rows, slots], far

    assign(everyone)
    swaps = quiet = turn = 0
    while quiet < count and not (over is not None and over()):
        candidate, turn, quiet = turn % count, turn + 1, quiet + 1
        if candidate in medoids:
            continue
        row = between(everyone[candidate : candidate + 1], everyone)[0]
        saved = np.minimum(np.maximum(row, reach[0]) - reach[1], 0.0)
        removal = np.bincount(near[0], weights * (reach[1] - reach[0]), k)
        changes = removal + np.bincount(near[0], weights * saved, k)
        slot = int(changes.argmin())
        change = changes[slot] + weights @ np.minimum(row - reach[0], 0.0)
        if change < -max(1e-9 * (weights @ reach[0]), 1e-13 * removal[slot]):
            medoids[slot] = candidate
            assign(np.flatnonzero((near == slot).any(axis=0) | (row < reach[1])))
            swaps, quiet = swaps + 1, 0
    medoids.sort()
    assign(everyone)
    return Medoids(medoids, near[0], "torch", swaps=swaps, finished=quiet >= count)


def add_keys(keys: Indices, values: Floats, factors: Indices) -> None:
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
