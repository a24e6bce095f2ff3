"""A random subset with a share for every class, each sample weighing m_y / n_y."""

import torch

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.selectors import uniform_plain
from fedcore.coreset.selectors.kmedoids_per_class import select_per_class
from fedcore.types import Coreset, Generator


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """n_y of the m_y samples of class y, by largest remainder: unbiased in every class."""
    # With more classes than samples, those without a share would be missing in every draw.
    if budget < len(torch.unique(candidates.classes())):
        return uniform_plain.select(candidates, budget, generator)
    return select_per_class(uniform_plain.select, candidates, budget, generator)
