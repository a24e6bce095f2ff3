"""One local step: the only place where its rule is written, for one client and for stacked ones.

With g the gradient of Σ_{j in B} coefficient_j · L_j(w), the coefficients from ``schedule``, and
the anchor w_r, which is the model that the job started from:

    d = s g + μ (w - w_r) + shift        w ← w - η d

s is the scale of a plan's steps, μ FedProx's pull, and the shift a vector of the job's own, such
as SCAFFOLD's c - c_i. Of K stacked clients everything has a leading axis K. They do not share
parameters, so the gradient of the sum of all objectives with respect to the stack is each client's
own: one backward pass serves all. Who has padding alone (coefficients of zero) stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcore.coreset.proxies import HeadGradients
from fedcore.stacked import Form, Stack
from fedcore.task import Task, sample_losses
from fedcore.types import Params


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs [B, ...], labels and coefficients [B]; or [K, B] of a stack, where 0 is padding."""

    x: Tensor
    y: Tensor
    coefficient: Tensor


@dataclass(frozen=True, slots=True)
class StepRule:
    """η, μ, w_r, s and the shift; of stacked clients, μ and s are [K], and the shift [K, ...]."""

    learning_rate: float | Tensor
    prox_mu: float | Tensor
    anchor: Params
    scale: float | Tensor = 1.0
    shift: Params | None = None


def step(
    task: Task, params: Params, batch: Batch, rule: StepRule, *, watch: bool = False
) -> tuple[Params, Tensor, HeadGradients | None]:
    """One client's parameters after a step, the losses L_j [B] before it, and what was watched.

    With ``watch`` the last are its samples' last-layer gradients, out of the same backward pass.
    """
    leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
    width = task.head_width if watch else None
    gradients, losses, seen = _gradients(task.forward, leaves, batch, width)
    moves = zip(params.items(), _directions(params, gradients, rule), strict=True)
    return {n: value - rule.learning_rate * d for (n, value), d in moves}, losses, seen


def stacked_step(
    form: Form, stack: Stack, batch: Batch, rule: StepRule, width: int | None
) -> tuple[Tensor, HeadGradients | None]:
    """The same for clients side by side; gives losses [K·B] and what was watched [K·B, ...].

    ``stack`` are leaves [K, ...] that are moved in place; ``width`` is that of the last layer, if
    its gradients are wanted. Rows of padding show something, too.
    """
    gradients, losses, seen = _gradients(form, stack, batch, width)
    active: Tensor | float = 1.0
    if rule.shift is not None or not _is(rule.prox_mu, 0.0):
        active = batch.coefficient.amax(dim=1).sign()  # 0 for a step of padding alone
    with torch.no_grad():
        moves = _directions(stack, gradients, rule, active)
        rate = rule.learning_rate
        if isinstance(rate, Tensor):  # of what is recorded as a graph: it changes by the round
            moves, rate = list(torch._foreach_mul(moves, rate)), 1.0
        torch._foreach_add_(list(stack.values()), moves, alpha=-rate)
    return losses, seen


def _gradients(
    form: Form, leaves: Stack, batch: Batch, width: int | None
) -> tuple[list[Tensor], Tensor, HeadGradients | None]:
    """g of every parameter, L of every row, and its last-layer gradients if there is a width."""
    coefficient = batch.coefficient.flatten()
    probe = None
    if width is not None:
        like, rows = next(iter(leaves.values())), batch.coefficient.shape
        probe = torch.zeros(*rows, width, dtype=like.dtype, device=like.device, requires_grad=True)
    scores, inputs = form(leaves, batch.x, probe)
    losses = sample_losses(scores.flatten(0, -2), batch.y.flatten())
    wanted = [*leaves.values()] if probe is None else [*leaves.values(), probe]
    objective = (coefficient * losses).sum()
    # A parameter that took no part, of a layer that is only used elsewhere, has gradient zero.
    gradients = list(torch.autograd.grad(objective, wanted, materialize_grads=True))
    seen = None
    if probe is not None:
        assert inputs is not None  # forms give them where there is a probe
        residuals = gradients.pop().flatten(0, -2) / coefficient[:, None]
        seen = HeadGradients(residuals, inputs.detach().flatten(0, -2), losses.detach())
    return gradients, losses.detach(), seen


@torch.no_grad()
def _directions(
    params: Params, gradients: Sequence[Tensor], rule: StepRule, active: Tensor | float = 1.0
) -> list[Tensor]:
    """d of every parameter; clients that are not ``active`` [K] have d = 0, as g = 0."""
    pull = active * rule.prox_mu
    found = []
    for (name, value), gradient in zip(params.items(), gradients, strict=True):
        d = gradient
        if not _is(rule.scale, 1.0):
            d = d * _along(rule.scale, d)
        if not _is(rule.prox_mu, 0.0):
            d = _plus(d, pull, value - rule.anchor[name])
        if rule.shift is not None:
            d = _plus(d, active, rule.shift[name])
        found.append(d)
    return found


def _is(share: float | Tensor, neutral: float) -> bool:
    return not isinstance(share, Tensor) and share == neutral


def _plus(d: Tensor, share: float | Tensor, vector: Tensor) -> Tensor:
    """d + share · vector; of a stack in one pass, which large layers feel."""
    along = _along(share, d)
    return torch.addcmul(d, along, vector) if isinstance(along, Tensor) else d + along * vector


def _along(share: float | Tensor, values: Tensor) -> float | Tensor:
    """One number for all, or for each of the K clients of a stack of values."""
    if not isinstance(share, Tensor):
        return share
    return share.to(values.dtype).view(-1, *[1] * (values.dim() - 1))
