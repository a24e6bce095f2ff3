"""One local step: the only place where its rule is written, for one client and for stacked ones.

With g the gradient of Σ_{j in B} coefficient_j · L_j(w), and the anchor w_r where the job began:

    d = clip(s g + μ (w - w_r) + shift) + λ w        w ← w - η opt(d)

s is the scale of a plan's steps, μ FedProx's pull, shift a job's own, such as SCAFFOLD's c - c_i.
clip shortens a client's d to a norm N: d min(1, N / (||d|| + 1e-6)). λ is weight decay. opt(d) = d
for plain SGD. Momentum ρ: u ← ρ u + d, opt(d) = u. Adam: u ← β₁ u + (1 - β₁) d, v ← β₂ v +
(1 - β₂) d², opt(d) = u' / (√v' + ε), u' = u / (1 - β₁^t), v' = v / (1 - β₂^t) at the t-th step. All
is as in ``clip_grad_norm_`` and ``torch.optim``; u, v and t are zero where a job begins.

Of K stacked clients everything has a leading axis K; one backward pass of the sum of objectives
serves all. Who has padding alone (coefficients of zero) stays where it is, with its u, v, t.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from fedcore.bundle import Inputs
from fedcore.coreset.proxies import HeadGradients
from fedcore.stacked import Form, Stack
from fedcore.task import Loss, Task, sample_losses
from fedcore.types import Params, TrainingSettings

BETAS, EPSILON = (0.9, 0.999), 1e-8  # of Adam


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs [B, ...], labels and coefficients [B]; or [K, B] of a stack, where 0 is padding."""

    x: Inputs
    y: Tensor
    coefficient: Tensor


@dataclass(frozen=True, slots=True)
class Memory:
    """An optimiser and what it remembers of K clients: u, then v [K, ...] in order, and t [K]."""

    how: TrainingSettings
    tensors: list[Tensor]  # a row per client; without u or v where there is none

    @classmethod
    def blank(cls, how: TrainingSettings, stack: Stack) -> Self | None:
        """That of clients who have taken no step; None for plain SGD, which needs none."""
        if how.plain:
            return None
        values = list(stack.values())
        moments = values * (2 if how.adam else int(how.momentum > 0))
        steps = values[0].new_zeros(len(values[0]), dtype=torch.float64)
        return cls(how, [*map(torch.zeros_like, moments), steps])

    def until(self, width: int) -> Self:
        """Views of what is remembered of the first clients."""
        return type(self)(self.how, [value[:width] for value in self.tensors])


@dataclass(frozen=True, slots=True)
class StepRule:
    """η, μ, w_r, s, shift, opt; of stacked clients, μ and s are [K], and the shift [K, ...]."""

    learning_rate: float | Tensor
    prox_mu: float | Tensor
    anchor: Params
    scale: float | Tensor = 1.0
    shift: Params | None = None
    memory: Memory | None = None  # of opt, clip and λ; changed by every step
    trained: Mapping[str, float | Tensor] | None = None  # by name, 0 where it is frozen: d = 0


def step(
    task: Task, params: Params, batch: Batch, rule: StepRule, *, watch: bool = False
) -> tuple[Params, Tensor, HeadGradients | None]:
    """One client's parameters after a step, losses L_j [B] before it, and gradients if watched."""
    leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
    width = task.head_width if watch else None
    gradients, losses, seen = _gradients(task.forward, leaves, batch, width, task.terms.loss)
    directions = _directions(params, gradients, rule)
    if rule.memory is not None:
        alone = {name: value[None] for name, value in params.items()}
        active = torch.ones(1, device=batch.coefficient.device)
        found = _optimised(alone, [d[None] for d in directions], rule, rule.memory, active)
        directions = [d[0] for d in found]
    moves = zip(params.items(), directions, strict=True)
    return {n: value - rule.learning_rate * d for (n, value), d in moves}, losses, seen


def stacked_step(
    form: Form, stack: Stack, batch: Batch, rule: StepRule, width: int | None
) -> tuple[Tensor, HeadGradients | None]:
    """The same for clients side by side: leaves [K, ...] are moved in place; losses are [K·B]."""
    gradients, losses, seen = _gradients(form, stack, batch, width)
    active: Tensor | float = 1.0
    if rule.memory is not None or rule.shift is not None or not _is(rule.prox_mu, 0.0):
        active = batch.coefficient.amax(dim=1).sign()  # 0 for a step of padding alone
    with torch.no_grad():
        moves = _directions(stack, gradients, rule, active)
        if rule.memory is not None:
            assert isinstance(active, Tensor)
            moves = _optimised(stack, moves, rule, rule.memory, active)
        rate = rule.learning_rate
        if isinstance(rate, Tensor):  # of what is recorded as a graph: it changes by the round
            moves, rate = list(torch._foreach_mul(moves, rate)), 1.0
        torch._foreach_add_(list(stack.values()), moves, alpha=-rate)
    return losses, seen


def _gradients(
    form: Form, leaves: Stack, batch: Batch, width: int | None, loss: Loss | None = None
) -> tuple[list[Tensor], Tensor, HeadGradients | None]:
    """g of every parameter, L of every row, and its last-layer gradients if there is a width."""
    coefficient = batch.coefficient.flatten()
    probe = None
    if width is not None:
        like, shape = next(iter(leaves.values())), (*batch.coefficient.shape, width)
        probe = like.new_zeros(shape, requires_grad=True)
    scores, inputs = form(leaves, batch.x, probe)
    y = batch.y
    losses = loss(scores, y) if loss else sample_losses(scores.flatten(0, -2), y.flatten())
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
        if rule.trained is not None:
            d = d * _along(rule.trained[name], d)
        found.append(d)
    return found


@torch.no_grad()
def _optimised(
    stack: Stack, directions: Sequence[Tensor], rule: StepRule, memory: Memory, active: Tensor
) -> list[Tensor]:
    """opt(clip(d) + λ w), zero for who is not ``active`` [K]; in float64 what is a number each."""
    how, active, found = memory.how, active.double(), list(directions)
    if how.clip_norm:
        norms = torch.stack([d.reshape(len(d), -1).norm(dim=1) for d in found]).norm(dim=0)
        shorter = (how.clip_norm / (norms + 1e-6)).clamp(max=1.0)
        found = [d * _along(shorter, d) for d in found]
    if how.weight_decay:
        trained, decay = rule.trained or {}, active * how.weight_decay
        named = zip(found, stack.items(), strict=True)
        found = [_plus(d, decay * trained.get(name, 1.0), w) for d, (name, w) in named]
    *moments, steps = memory.tensors
    first, second = moments[: len(found)], moments[len(found) :]
    if how.adam:
        steps.add_(active)
        t = steps.clamp(min=1)  # of who has not begun, to divide by
        _remember(first, found, BETAS[0], 1 - BETAS[0], active)
        _remember(second, [d * d for d in found], BETAS[1], 1 - BETAS[1], active)
        gain, root = active / (1 - BETAS[0] ** t), (1 - BETAS[1] ** t).sqrt()
        pairs = zip(first, second, strict=True)
        return [_along(gain, u) * u / (v.sqrt() / _along(root, v) + EPSILON) for u, v in pairs]
    if how.momentum:
        _remember(first, found, how.momentum, 1.0, active)
        return [_along(active, u) * u for u in first]
    return found


def _remember(
    moments: Sequence[Tensor], new: Sequence[Tensor], keep: float, gain: float, active: Tensor
) -> None:
    """u ← keep · u + gain · x in place; who is not active has x = 0, and keeps all."""
    kept = 1 - active * (1 - keep)
    for moment, value in zip(moments, new, strict=True):
        moment.mul_(_along(kept, moment)).add_(value, alpha=gain)


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
