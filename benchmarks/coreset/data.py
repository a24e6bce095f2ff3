"""Residual gradients as a classifier has them early, in the middle and late in training."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

STAGES = {"early": (0.5, 0.7, 1.0), "middle": (4.0, 2.5, 1.5), "late": (11.0, 5.0, 1.5)}


def residual_gradients(
    count: int, stage: str, seed: int = 0, classes: int = 10, width: int = 512
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return softmax − one-hot [count, C] and a last layer [C, d]; the gradient is r W."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, classes, count)
    margin, spread, noise = STAGES[stage]
    logits = rng.normal(size=(count, classes)) * noise
    logits[np.arange(count), label] += rng.normal(margin, spread, count)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    # The own class's entry as minus the sum of the others: 1 − p loses what is below 1e-7.
    odds[np.arange(count), label] = 0.0
    odds[np.arange(count), label] = -odds.sum(axis=1)
    weight = rng.normal(size=(classes, width)) / width**0.5
    return odds.astype(np.float32), weight.astype(np.float32)
