"""GRAD-MATCH: orthogonal matching pursuit on the sum of gradients (Killamsetty et al. 2021)."""

import torch
from torch import Tensor

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Metric, inner, squared_norms
from fedcore.coreset.weights import finish
from fedcore.types import Coreset, Generator

TOLERANCE = 1e-6  # stop when the residual is this small against the target
TINY, TURNS = 1e-12, 1000  # of a refit: what counts as nothing, and mistakes at most


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """min ||Σ_j g_j - Σ_{k in S} δ_k g_k||, δ >= 0, Σ δ close to n, one sample at a time.

    Each turn takes the sample best aligned with what is missing and refits all weights. Gradients
    carry one more coordinate, a constant of typical size, which keeps weights near sum n; they are
    scaled to n at the end. Ends once all is matched, often with far fewer. Draws nothing.
    """
    space, size = candidates.space, len(candidates)
    space = space.of((one.double() for one in space.factors), space.bias)  # once, not every turn
    constant = float(squared_norms(space).mean())
    lengths = (squared_norms(space) + constant).sqrt()
    aligned = _against_sum(space) + constant * size  # <g_i, Σ_j g_j> with the constant
    whole = float(aligned.sum())  # squared length of the sum
    chosen: list[int] = []
    weights = torch.zeros(0, dtype=torch.float64, device=lengths.device)
    missing = aligned.clone()
    while len(chosen) < budget and whole > 0:
        scores = missing / lengths
        scores[chosen] = -torch.inf
        best = int(scores.argmax())
        if not float(scores[best]) > 0:
            break
        chosen.append(best)
        index = torch.tensor(chosen, device=lengths.device)
        gram = inner(space, index, index) + constant
        weights = _nonnegative_fit(gram, aligned[index], torch.cat([weights, weights.new_zeros(1)]))
        missing = aligned - (inner(space, slice(None), index) + constant) @ weights
        gap = whole - 2 * float(weights @ aligned[index]) + float(weights @ gram @ weights)
        if gap <= TOLERANCE * whole:
            break
    if not bool((weights > 0).any()):  # all gradients are zero or cancel: any will do
        chosen, weights = [0], weights.new_ones(1)
    indices, order = torch.tensor(chosen, device=weights.device).sort()
    kept = weights[order] > 0
    values = weights[order][kept]
    return finish(space, indices[kept], values * (size / values.sum()))


def _against_sum(space: Metric) -> Tensor:
    """<g_i, Σ_j g_j> for every sample, without the long vectors."""
    left, *rest = (factor.double() for factor in space.factors)
    alone = left @ left.sum(dim=0)
    if not rest:
        return alone
    total = (left @ (left.T @ rest[0]) * rest[0]).sum(dim=1)
    return total + alone if space.bias else total


def _nonnegative_fit(gram: Tensor, target: Tensor, start: Tensor) -> Tensor:
    """argmin_{δ >= 0} ½ δ'Gδ - δ't: its last mistake is turned over until there is none (Murty)."""
    matrix, wanted, free = gram.cpu(), target.cpu(), start.cpu() > 0
    matrix = matrix + torch.diag(TINY * matrix.diagonal())  # so that duplicates have one solution
    for _ in range(TURNS):
        weights = torch.zeros_like(wanted)
        weights[free] = torch.linalg.solve(matrix[free][:, free], wanted[free])
        gains = wanted - matrix @ weights > TINY * wanted.max()
        wrong = torch.where(free, weights < 0, gains).nonzero()
        if not len(wrong):
            break
        free[wrong[-1]] ^= True
    return weights.clamp(min=0).to(start.device)
