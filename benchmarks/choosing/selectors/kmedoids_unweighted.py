"""The medoids of all samples, each of weight n / b, however many stand near it."""

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.selectors import kmedoids
from fedcore.coreset.weights import equal_weights
from fedcore.types import Coreset, Generator


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """The S of Eq. 5 with δ_k = n / b."""
    found = kmedoids.select(candidates, budget, generator)
    return equal_weights(candidates.space, found.indices)
