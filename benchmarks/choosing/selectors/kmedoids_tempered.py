"""The medoids of all samples, with weights evened out until at least half of them count."""

from torch import Tensor

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.selectors import kmedoids
from fedcore.coreset.weights import finish
from fedcore.types import Coreset, Generator

LEAST = 0.5  # effective samples (Σ δ)² / Σ δ², as a share of b


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """δ^a, rescaled to n, with the largest a in [0, 1] for which (Σ δ)² / Σ δ² >= b / 2."""
    found = kmedoids.select(candidates, budget, generator)
    low, high = 0.0, 1.0
    if effective(found.weights) >= LEAST * len(found.indices):
        low = 1.0
    while high - low > 1e-6:  # the effective number falls with a
        middle = (low + high) / 2
        enough = effective(found.weights**middle) >= LEAST * len(found.indices)
        low, high = (middle, high) if enough else (low, middle)
    weights = found.weights**low
    return finish(candidates.space, found.indices, weights * len(candidates) / weights.sum())


def effective(weights: Tensor) -> float:
    """(Σ δ)² / Σ δ²: the number of equally weighted samples of the same variance."""
    return float(weights.sum() ** 2 / weights.square().sum())
