"""A random subset; every other sample counts for its nearest one."""

import numpy as np
import torch
from torch import Tensor

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.weights import nearest_counts
from fedcore.types import Coreset, Generator


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """S uniform without replacement, δ_k = number of points whose nearest element of S is k."""
    return nearest_counts(candidates.space, draw(candidates, budget, generator))


def draw(candidates: Candidates, budget: int, generator: Generator) -> Tensor:
    """``budget`` different positions, sorted, all equally likely."""
    chosen = np.sort(generator.choice(len(candidates), size=budget, replace=False))
    return torch.from_numpy(chosen).to(candidates.space.factors[0].device)
