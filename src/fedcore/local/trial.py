"""Whether a model can be trained side by side, and what that takes, found by trying it once."""

from __future__ import annotations

import copy
import warnings

import torch
from torch import Tensor

from fedcore.local.forms import form_of
from fedcore.task import Task, sample_losses
from fedcore.types import ClientData

TOLERANCE = 1e-2  # of the largest score: convolutions of one model may run in TF32 on a GPU


def bytes_of_a_step(
    task: Task, data: ClientData, batch_size: int, *, clients: int, device: torch.device
) -> int | None:
    """Bytes per client that a step keeps, parameters included; None where it cannot be had.

    The block's scores must be those of the model itself, twice over: a model that draws random
    numbers, or one without a rule for ``vmap``, is refused.

    Args:
        task: the model.
        data: some client's samples, of which one batch is taken.
        batch_size: samples in a step.
        clients: how many copies of that client to train.
        device: where.
    """
    task = copy.deepcopy(task)
    params = {name: value.to(device) for name, value in task.initial_params().items()}
    x, y = (part.to(device) for part in data.take(slice(0, batch_size)))
    kept = 0

    def count(saved: Tensor) -> Tensor:
        nonlocal kept
        kept += saved.numel() * saved.element_size()
        return saved

    stack = {n: v.expand(clients, *v.shape).clone().requires_grad_() for n, v in params.items()}
    probe = None
    if task.head_width:
        probe = torch.zeros(clients, len(x), task.head_width, device=device)
        probe = probe.to(next(iter(params.values())).dtype).requires_grad_()
    try:
        with warnings.catch_warnings(), torch.random.fork_rng():
            warnings.filterwarnings("error", message=".*batching rule.*")
            expected = task.logits(params, x).detach().expand(clients, -1, -1)
            with torch.autograd.graph.saved_tensors_hooks(count, lambda saved: saved):
                scores, _ = form_of(task)(stack, x.expand(clients, *x.shape), probe)
            losses = sample_losses(scores.flatten(0, 1), y.repeat(clients))
            torch.autograd.grad(losses.sum(), list(stack.values()))
    except (RuntimeError, UserWarning, ValueError, TypeError, AttributeError):
        return None
    scale = float(expected.abs().max()) + 1e-6
    if not torch.allclose(scores, expected, rtol=0, atol=TOLERANCE * scale):
        return None
    own = sum(value.numel() * value.element_size() for value in params.values())
    return kept // clients + 3 * own  # the parameters, their gradients, and a copy on the move
