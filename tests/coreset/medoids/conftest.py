"""Families of points that k-medoids must cope with, small and made on the spot."""

import sys
from pathlib import Path

import numpy as np
import pytest

from fedcore.coreset.metric import Euclidean, OuterProduct
from fedcore.coreset.proxies import residual_metric

sys.path.insert(0, str(Path(__file__).parent / "helpers"))  # for plain_medoids

STAGES = {"early": (0.5, 0.7, 1.0), "middle": (4.0, 2.5, 1.5), "late": (11.0, 5.0, 1.5)}


def residuals(count, stage, classes=10):
    """Softmax − one-hot of a classifier that is right by a margin that grows as it trains."""
    rng = np.random.default_rng(len(stage))
    label = rng.integers(0, classes, count)
    margin, spread, noise = STAGES[stage]
    logits = rng.normal(size=(count, classes)) * noise
    logits[np.arange(count), label] += rng.normal(margin, spread, count)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    # The own class's entry as minus the sum of the others: 1 − p loses what is below 1e-7.
    odds[np.arange(count), label] = 0.0
    odds[np.arange(count), label] = -odds.sum(axis=1)
    return odds, label


def make(name, count):
    rng = np.random.default_rng(7)
    if name in STAGES:
        weight = rng.normal(size=(10, 512)) / 512**0.5
        return residual_metric(residuals(count, name)[0], weight)
    if name == "outer":
        return OuterProduct(residuals(count, "middle")[0], rng.normal(size=(count, 24)))
    if name == "one class":
        values, label = residuals(5 * count, "middle", classes=3)
        return Euclidean(values[label == 0][:count])
    if name == "mixture":
        centres = rng.normal(size=(20, 6)) * 4
        return Euclidean(centres[rng.integers(0, 20, count)] + rng.normal(size=(count, 6)))
    if name == "duplicates":
        return Euclidean(rng.integers(0, 5, size=(count, 4)))
    if name == "heavy tails":
        return Euclidean(rng.standard_cauchy(size=(count, 3)))
    if name == "high-dimensional":
        return Euclidean(rng.normal(size=(count, 60)))
    if name == "long":  # whose first coordinates are looked at first
        return Euclidean(rng.normal(size=(count, 90)) * np.linspace(1.5, 0.1, 90))
    raise KeyError(name)


FAMILIES = [
    *STAGES,
    "outer",
    "one class",
    "mixture",
    "duplicates",
    "heavy tails",
    "high-dimensional",
    "long",
]


@pytest.fixture(params=FAMILIES)
def family(request):
    """A builder of this family: count -> metric."""
    return lambda count: make(request.param, count)


@pytest.fixture
def late():
    """A builder of the hardest family: gradients late in training."""
    return lambda count: make("late", count)
