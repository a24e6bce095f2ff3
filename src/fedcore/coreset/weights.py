"""Weights of a chosen subset: every sample counts for its nearest chosen one (section 4.2)."""

import torch
from torch import Tensor

from fedcore.coreset.metric import Metric, blocks, distances, gradient_error
from fedcore.types import Coreset


def nearest_counts(space: Metric, chosen: Tensor) -> Coreset:
    """δ_k = |{j : k nearest of S}|, itself first, then the lowest index; Σ_j min_k d_jk (Eq. 5)."""
    nearest = torch.empty(len(space), dtype=torch.int64, device=chosen.device)
    objective = 0.0
    for rows in blocks(len(space), len(chosen)):
        closest = distances(space, rows, chosen).min(dim=1)
        nearest[rows] = closest.indices
        objective += float(closest.values.double().sum())
    nearest[chosen] = torch.arange(len(chosen), device=chosen.device)
    weights = torch.bincount(nearest, minlength=len(chosen)).double()
    return finish(space, chosen, weights, objective, nearest)


def equal_weights(space: Metric, chosen: Tensor) -> Coreset:
    """δ_k = n / b for every chosen sample, whatever stands near it."""
    weights = torch.full((len(chosen),), len(space) / len(chosen), dtype=torch.float64)
    return finish(space, chosen, weights.to(chosen.device))


def everything(size: int, device: torch.device) -> Coreset:
    """All samples, each for itself."""
    indices = torch.arange(size, device=device)
    return Coreset(indices, torch.ones_like(indices, dtype=torch.float64), 0.0, 0.0, indices)


def finish(
    space: Metric,
    chosen: Tensor,
    weights: Tensor,
    objective: float | None = None,
    assignment: Tensor | None = None,
) -> Coreset:
    """A coreset with its gradient error measured."""
    return Coreset(chosen, weights, objective, gradient_error(space, chosen, weights), assignment)
