"""CRAIG: greedy facility location over gradients (Mirzasoleiman et al. 2020)."""

import heapq

import torch

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import blocks, distances
from fedcore.coreset.weights import nearest_counts
from fedcore.types import Coreset, Generator


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """Greedily lower Σ_j min_{k in S} d_jk, lazily: gains only shrink as S grows.

    F(S) = Σ_j (d_j0 - min_{k in S ∪ {0}} d_jk), 0 farther away than all, is submodular: a gain from
    earlier bounds the gain now. δ_k = size of k's cluster. Draws nothing.
    """
    space = candidates.space
    device = space.factors[0].device
    beyond = 2.0 * float(distances(space, slice(None), slice(1)).max())  # none are further apart
    gap = torch.full((len(candidates),), beyond, dtype=torch.float64, device=device)
    gains = torch.empty_like(gap)
    for rows in blocks(len(space), len(space)):  # n² distances, a block at a time
        reach = distances(space, rows, slice(None)).double()
        gains[rows] = (gap[None, :] - reach).clamp(min=0).sum(dim=1)
    heap = sorted((-gain, index) for index, gain in enumerate(gains.tolist()))
    chosen: list[int] = []
    while len(chosen) < budget:
        _, index = heapq.heappop(heap)
        reach = distances(space, slice(None), torch.tensor([index], device=device))[:, 0].double()
        gain = float((gap - reach).clamp(min=0).sum())
        if heap and (-gain, index) > heap[0]:  # somebody else may gain more, or come first
            heapq.heappush(heap, (-gain, index))
            continue
        chosen.append(index)
        gap = torch.minimum(gap, reach)
    return nearest_counts(space, torch.tensor(sorted(chosen), device=device))
