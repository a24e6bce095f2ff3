"""One step of every client of a block: ``step`` for stacked parameters.

    w_k ← w_k - η Σ_j coefficient_kj ∇L_j(w_k) - η μ_k (w_k - w_r)

Clients do not share parameters, so the gradient of the sum of all their objectives with respect
to the stack is each client's own gradient: one backward pass serves all. A client whose
coefficients are all zero stays where it is: its gradient is zero, and so is its pull.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedcore.coreset.proxies import HeadGradients
from fedcore.stacked import Form, Stack
from fedcore.task import sample_losses


@dataclass(frozen=True, slots=True)
class CohortBatch:
    """Inputs [K, B, ...], labels and coefficients [K, B]; coefficient 0 marks padding."""

    x: Tensor
    y: Tensor
    coefficient: Tensor


@dataclass(frozen=True, slots=True)
class CohortRule:
    """Step size η, pulls η μ_k [K] (None: nobody has one), and the model w_r they go to."""

    learning_rate: float
    pull: Tensor | None
    anchor: Stack


def cohort_step(
    form: Form, stack: Stack, batch: CohortBatch, rule: CohortRule, watch: int
) -> HeadGradients | None:
    """Move ``stack`` in place; leaves [K, ...] that require gradients.

    Args:
        form: the model's forward pass over clients.
        stack: the clients' parameters.
        batch: their samples.
        rule: how far, and with which pull.
        watch: width of the last layer if its gradients are wanted, else 0.

    Returns:
        Last-layer gradients [K·B, ...] with rows of padding among them, or None.
    """
    rows = batch.coefficient.shape
    probe = None
    if watch:
        like = next(iter(stack.values()))
        probe = torch.zeros(*rows, watch, dtype=like.dtype, device=like.device, requires_grad=True)
    logits, inputs = form(stack, batch.x, probe)
    losses = sample_losses(logits.flatten(0, 1), batch.y.flatten())
    coefficient = batch.coefficient.flatten()
    wanted = [*stack.values()] if probe is None else [*stack.values(), probe]
    loss = (coefficient * losses).sum()
    gradients = list(torch.autograd.grad(loss, wanted, materialize_grads=True))
    seen = None
    if probe is not None:
        assert inputs is not None  # forms give them where there is a probe
        residuals = gradients.pop().flatten(0, 1) / coefficient[:, None]
        seen = HeadGradients(residuals, inputs.detach().flatten(0, 1), losses.detach())
    _descend(stack, gradients, batch.coefficient, rule)
    return seen


@torch.no_grad()
def _descend(stack: Stack, gradients: list[Tensor], coefficient: Tensor, rule: CohortRule) -> None:
    if rule.pull is not None:
        pull = rule.pull * coefficient.amax(dim=1).sign()  # zero for a step of padding alone
        for name, value in stack.items():
            anchor = rule.anchor[name]
            value.lerp_(anchor.expand_as(value), pull.to(value.dtype).view(-1, *[1] * anchor.dim()))
    torch._foreach_add_(list(stack.values()), gradients, alpha=-rule.learning_rate)
