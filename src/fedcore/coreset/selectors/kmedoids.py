"""k-medoids over all of a client's samples (Eq. 5): the paper's coreset."""

from __future__ import annotations

import torch
from torch import Tensor

from fedcore.coreset.medoids.solve import solve
from fedcore.types import Coreset, Generator


def select(points: Tensor, budget: int, *, labels: Tensor, generator: Generator) -> Coreset:
    """S = argmin Σ_j min_{k in S} d_jk with |S| <= budget, δ_k = size of k's cluster."""
    found = solve(points, budget, seed=int(generator.integers(1 << 31)))
    weights = torch.bincount(torch.from_numpy(found.assignment), minlength=len(found.indices))
    return Coreset(torch.from_numpy(found.indices), weights.double(), found.objective)
