"""One local step: the only place where the local objective is written.

Σ_{j in B} coefficient_j · L_j(w) + μ/2 ||w - w_r||², one step of SGD on it. The coefficients
come from ``schedule``; w_r, the anchor, is the global model of the round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcore.coreset.proxies import HeadGradients
from fedcore.task import Task, sample_losses
from fedcore.types import Params


@dataclass(frozen=True, slots=True)
class Batch:
    """Some samples and their coefficients, without padding."""

    x: Tensor
    y: Tensor
    coefficient: Tensor


@dataclass(frozen=True, slots=True)
class StepRule:
    """Step size η, proximal strength μ, and the model w_r that μ pulls towards."""

    learning_rate: float
    prox_mu: float
    anchor: Params


def step(task: Task, params: Params, batch: Batch, rule: StepRule) -> Params:
    """Return w - η (Σ coefficient_j ∇L_j(w) + μ (w - w_r))."""
    leaves = _leaves(params)
    losses = sample_losses(task.logits(leaves, batch.x), batch.y)
    loss = (batch.coefficient * losses).sum()
    # A parameter that took no part, of a layer that is only used elsewhere, has gradient zero.
    gradients = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
    return _descend(params, gradients, rule)


def step_and_watch(
    task: Task, params: Params, batch: Batch, rule: StepRule
) -> tuple[Params, HeadGradients]:
    """The same step, and each sample's last-layer gradients out of the same backward pass."""
    leaves = _leaves(params)
    logits, head = task.logits_and_head(leaves, batch.x)
    losses = sample_losses(logits, batch.y)
    loss = (batch.coefficient * losses).sum()
    wanted = [*leaves.values(), head.outputs]
    *gradients, scaled = torch.autograd.grad(loss, wanted, materialize_grads=True)
    residuals = scaled / batch.coefficient[:, None]
    watched = HeadGradients(residuals, head.inputs.detach(), losses.detach())
    return _descend(params, gradients, rule), watched


def _leaves(params: Params) -> dict[str, Tensor]:
    return {name: value.detach().requires_grad_() for name, value in params.items()}


@torch.no_grad()
def _descend(params: Params, gradients: Sequence[Tensor], rule: StepRule) -> Params:
    moved = {}
    for (name, value), gradient in zip(params.items(), gradients, strict=True):
        pull = rule.prox_mu * (value - rule.anchor[name]) if rule.prox_mu else 0.0
        moved[name] = value - rule.learning_rate * (gradient + pull)
    return moved
