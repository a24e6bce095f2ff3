"""k-medoids with one budget for all, in which a sample only counts for one of its own class."""

import torch

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.selectors.kmedoids import solve_medoids
from fedcore.types import Coreset, Generator

NEEDS_LABELS = True  # `select_coreset` refuses to do without


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """Eq. 5 with d_jk = ∞ between classes; with fewer places than classes, these are forgotten."""
    classes = candidates.classes()
    kept = None if budget < len(torch.unique(classes)) else classes
    return solve_medoids(candidates, budget, generator, kept)
