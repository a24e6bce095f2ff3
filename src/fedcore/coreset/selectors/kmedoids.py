"""k-medoids over all of a client's samples (Eq. 5): the paper's coreset."""

import numpy as np
import torch
from torch import Tensor

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.medoids.solve import solve
from fedcore.coreset.metric import gradient_error
from fedcore.types import Coreset, Generator


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """S = argmin Σ_j min_{k in S} d_jk with |S| <= budget, δ_k = size of k's cluster."""
    return solve_medoids(candidates, budget, generator)


def solve_medoids(
    candidates: Candidates, budget: int, generator: Generator, labels: Tensor | None = None
) -> Coreset:
    """Run the solver; with ``labels`` a sample is only served by a medoid of its own label."""
    space, start, seconds = candidates.space, candidates.start, candidates.seconds
    seed = int(generator.integers(1 << 31))
    found = solve(space, budget, seed=seed, labels=labels, start=start, seconds=seconds)
    counts = np.bincount(found.assignment, minlength=len(found.indices)).astype(np.float64)
    arrays, device = (found.indices, counts, found.assignment), space.factors[0].device
    indices, weights, assignment = (torch.from_numpy(own).to(device) for own in arrays)
    error = gradient_error(space, indices, weights) if found.error is None else found.error
    return Coreset(indices, weights, found.objective, error, assignment)
