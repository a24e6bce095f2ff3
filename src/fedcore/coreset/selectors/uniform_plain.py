"""A random subset in which every sample weighs n / b: plain subsampling."""

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.selectors.uniform import draw
from fedcore.coreset.weights import equal_weights
from fedcore.types import Coreset, Generator


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """S uniform without replacement, δ_k = n / b: Σ δ_k g_k is unbiased over the draw."""
    return equal_weights(candidates.space, draw(candidates, budget, generator))
