"""Whether a model can be trained side by side, and what that takes, found by trying it once."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from fedcore.client.executors.forms import form_of
from fedcore.task import Task, sample_losses
from fedcore.types import ClientData

# Of the largest score; convolutions of one model may run in TF32 on a GPU.
TOLERANCE = {"cpu": 1e-4, "cuda": 1e-2}


def bytes_of_a_step(
    task: Task, data: ClientData, batch_size: int, *, clients: int, device: torch.device
) -> int | None:
    """Bytes per client that a step keeps, parameters included; None where it cannot be had.

    The block's scores must be those of the model itself, also where a batch ends with rows of
    padding. So a model without a rule for ``vmap`` is refused, and one whose samples see each
    other, and one that draws random numbers.

    Args:
        task: the model.
        data: some client's samples, of which one batch is taken.
        batch_size: samples in a step.
        clients: how many copies of that client to train.
        device: where.
    """
    task = task.on(device)
    params = {name: value.to(device) for name, value in task.initial_params().items()}
    real = data.take(slice(0, max(1, batch_size - 1)))[0].to(device)
    padding = real.new_zeros(batch_size - len(real), *real.shape[1:])
    x = torch.cat([real, padding])
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
    labels = torch.zeros(clients * len(x), dtype=torch.int64, device=device)
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(_gpus(device)):
            warnings.filterwarnings("error", message=".*batching rule.*")
            before = _random_state(device)
            expected = task.logits(params, real).detach().expand(clients, -1, -1)
            if not torch.equal(before, _random_state(device)):
                return None
            with torch.autograd.graph.saved_tensors_hooks(count, lambda saved: saved):
                scores, _ = form_of(task)(stack, x.expand(clients, *x.shape), probe)
            losses = sample_losses(scores.flatten(0, 1), labels)
            torch.autograd.grad(losses.sum(), list(stack.values()), materialize_grads=True)
    except Exception:
        return None
    scale = float(expected.abs().max()) + 1e-6
    tolerance = TOLERANCE[device.type] * scale
    if not torch.allclose(scores[:, : len(real)], expected, rtol=0, atol=tolerance):
        return None
    own = sum(value.numel() * value.element_size() for value in params.values())
    return kept // clients + 3 * own  # the parameters, their gradients, and a copy on the move


def _gpus(device: torch.device) -> list[torch.device]:
    return [device] if device.type == "cuda" else []


def _random_state(device: torch.device) -> Tensor:
    """What a draw would move: the processor's generator, and the device's."""
    own = torch.get_rng_state()
    return torch.cat([own, torch.cuda.get_rng_state(device)]) if device.type == "cuda" else own
