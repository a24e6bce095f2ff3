"""ε on the whole model: how far a coreset's gradient is from the full set's (Assumption A.3)."""

from __future__ import annotations

import torch
from torch import Tensor

from fedcore.client.schedule import Samples
from fedcore.task import Task, sample_losses
from fedcore.types import ClientData, Params

CHUNK = 256  # samples a pass takes at a time


def full_gradient_error(task: Task, params: Params, data: ClientData, samples: Samples) -> float:
    """||Σ_j ∇L_j - Σ_k δ_k ∇L_k|| / ||Σ_j ∇L_j|| at ``params``: two extra passes, on request."""
    everything = torch.arange(len(data))
    whole = _gradient(task, params, data, everything, torch.ones(len(data)))
    weights = torch.from_numpy(samples.weights).float()
    part = _gradient(task, params, data, torch.from_numpy(samples.indices), weights)
    norm = float(whole.norm())
    return float((whole - part).norm()) / norm if norm > 0 else 0.0


def _gradient(
    task: Task, params: Params, data: ClientData, indices: Tensor, weights: Tensor
) -> Tensor:
    """Σ δ ∇L over ``indices``, all parameters in one vector."""
    leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
    total = torch.zeros(sum(value.numel() for value in params.values()), dtype=torch.float64)
    for start in range(0, len(indices), CHUNK):
        x, y = data.take(indices[start : start + CHUNK])
        losses = sample_losses(task.logits(leaves, x), y)
        scale = weights[start : start + CHUNK].to(losses)
        loss = (scale * losses).sum()
        gradients = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
        total += torch.cat([g.flatten() for g in gradients]).double().cpu()
    return total
