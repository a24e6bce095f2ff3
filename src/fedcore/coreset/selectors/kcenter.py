"""k-center: always the sample farthest from all chosen so far (Sener and Savarese 2018)."""

import torch

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import distances
from fedcore.coreset.weights import nearest_counts
from fedcore.types import Coreset, Generator


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """Greedy for min_S max_j min_{k in S} d_jk, at most twice the optimum; the first is drawn."""
    space = candidates.space
    device = space.factors[0].device
    chosen = [int(generator.integers(len(candidates)))]
    gap = torch.full((len(candidates),), float("inf"), device=device)
    while len(chosen) < budget:
        last = torch.tensor([chosen[-1]], device=device)
        gap = torch.minimum(gap, distances(space, slice(None), last)[:, 0])
        gap[chosen[-1]] = -1.0  # a chosen sample is never chosen again
        chosen.append(int(gap.argmax()))
    return nearest_counts(space, torch.tensor(sorted(chosen), device=device))
