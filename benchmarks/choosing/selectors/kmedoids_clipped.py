"""The medoids of all samples, with no weight above twice the mean before all are rescaled."""

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.selectors import kmedoids
from fedcore.coreset.weights import finish
from fedcore.types import Coreset, Generator

MOST = 2.0  # times n / b


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """min(δ_k, 2 n / b), rescaled to n."""
    found = kmedoids.select(candidates, budget, generator)
    weights = found.weights.clamp(max=MOST * len(candidates) / len(found.indices))
    return finish(candidates.space, found.indices, weights * len(candidates) / weights.sum())
