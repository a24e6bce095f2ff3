"""Which sample, with which coefficient, at which step: the batch schedule of one phase.

A step minimises Σ_j coefficient_j · L_j(w) over its batch. For a coreset of b samples with weights
δ (Σ δ = m) and a batch B (docs/adr/0005-weights-in-a-batch.md):

* scaled        (b/m) · δ_j / |B|     expected step = (1/m) Σ δ_j ∇L_j, the paper's g_t^i
* normalised    δ_j / Σ_{l in B} δ_l  the authors' code; a ratio, so biased
* proportional  Σ δ / m / |B|, with j drawn with probability δ_j / Σ δ; same expectation as scaled

The full set is the coreset of everything with δ = 1, for which the first two are 1 / |B|.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedcore.types import Generator, Params, Phase, Weighting


@dataclass(frozen=True, slots=True)
class Samples:
    """What a phase trains on: sample ``indices`` [b] with ``weights`` [b] that sum to m."""

    indices: NDArray[np.int64]
    weights: NDArray[np.float64]
    weighting: Weighting = Weighting.SCALED
    gradient_error: float | None = None  # of the coreset these are, in proxy space
    fell_back: bool = False  # whether a plain draw took the place of its selector's choice
    total: float | None = None  # m, where the weights sum to it in the mean over draws alone
    epochs: int | None = None  # on these, in place of those of the phase
    told: Params | None = None  # what the server is told of the choice

    @classmethod
    def everything(cls, num_samples: int) -> Self:
        """All of a client's samples, each with weight one."""
        return cls(np.arange(num_samples), np.ones(num_samples))


@dataclass(frozen=True, slots=True)
class BatchSchedule:
    """Tapes ``index`` and ``coefficient`` [steps, batch]; coefficient 0 marks padding.

    One of no steps may ask to ``rest`` for so many of others; who trains alone goes on.
    """

    index: NDArray[np.int64]
    coefficient: NDArray[np.float32]
    watch: bool = False  # whether its samples' gradients are to be handed back
    first_epoch: int = 0  # steps from the beginning whose losses are to be noted
    rest: int = 0


NOTHING = BatchSchedule(np.empty((0, 0), np.int64), np.empty((0, 0), np.float32))


def schedule(samples: Samples, epochs: int, batch_size: int, generator: Generator) -> BatchSchedule:
    """Shuffle ``samples`` anew for every epoch and cut them into batches."""
    size, weights = len(samples.indices), samples.weights
    total = weights.sum() if samples.total is None else samples.total
    if samples.weighting is Weighting.PROPORTIONAL:
        order = generator.choice(size, size=(epochs, size), p=weights / weights.sum())
        weights, total = np.ones(size), size * (total / weights.sum())  # drawn by them already
    else:
        order = generator.permuted(np.tile(np.arange(size), (epochs, 1)), axis=1)
    steps = -(-size // batch_size)
    # Every epoch ends with its own padding; np.pad takes ten times as long.
    room, shape = steps * batch_size, (epochs, steps, batch_size)
    padded = np.zeros((epochs, room), np.int64)
    padded[:, :size] = order
    order = padded.reshape(shape)
    real = (np.arange(room) < size).reshape(shape[1:])  # of one epoch
    coefficient = np.where(real, weights[order], 0.0)
    if samples.weighting is Weighting.NORMALISED:
        coefficient /= coefficient.sum(axis=2, keepdims=True)
    else:
        coefficient = size / total * coefficient / real.sum(axis=1, keepdims=True)
    coefficient = coefficient.astype(np.float32).reshape(-1, batch_size)
    return BatchSchedule(samples.indices[order].reshape(-1, batch_size), coefficient)


def above_threshold(losses: NDArray[np.floating], phase: Phase, generator: Generator) -> Samples:
    """Rules a, b and c of ``strategies/fedbalancer.py``, with w = budget · epochs."""
    assert phase.coreset is not None
    options, budget, size = dict(phase.coreset.options), phase.coreset.budget, len(losses)
    if budget >= size:
        return Samples.everything(size)
    over = losses >= options["threshold"]
    hard, easy = np.flatnonzero(over | ~over.any()), np.flatnonzero(~over & over.any())
    count, epochs = budget, phase.epochs
    if len(hard) > budget:
        count = min(len(hard), budget * epochs)
        epochs = budget * epochs // count
    others = min(int(count * options["easy"]), len(easy))
    first = generator.choice(hard, min(count - others, len(hard)), replace=False)
    indices = np.sort(np.append(first, generator.choice(easy, others, replace=False)))
    return Samples(indices, np.full(len(indices), size / len(indices)), epochs=epochs)
