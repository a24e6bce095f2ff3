"""A model's forward pass for a whole block of clients, and what a step of them takes.

Models without a form of their own go through ``vmap``; one client alone through the model itself.
"""

import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from fedcore.stacked import Form, Passed, Stack, Zeros
from fedcore.task import Task, has_hooks
from fedcore.types import ClientData, Params

# Of the largest score; convolutions of one model may run in TF32 on a GPU.
TOLERANCE = {"cpu": 1e-4, "cuda": 1e-2}


def form_of(task: Task) -> Form:
    """The fastest form that is known for a model, by the number of clients and the device."""
    module = by_module(task)
    together = _own(task, "stacked_form") or module
    alone = _own(task, "single_form") or module

    def forward(params: Stack, x: Tensor, probe: Zeros) -> Passed:
        # One model has the best kernels on CPUs; on a GPU a graph can only hold the stacked form.
        form = alone if len(x) == 1 and x.device.type == "cpu" else together
        return form(params, x, probe)

    return forward


def _own(task: Task, name: str) -> Form | None:
    """A form that the model's class brings; hooks and frozen parameters are not in it."""
    bring = vars(type(task.model)).get(name)
    plain = task.saved({}).keys() == task.initial_params().keys() and not has_hooks(task.model)
    return partial(bring, task.model) if bring is not None and plain else None


def by_module(task: Task) -> Form:
    """The form of any model: its module under ``vmap``, or as it is for one client."""

    def forward(params: Stack, x: Tensor, probe: Zeros) -> Passed:
        if len(x) > 1:
            if probe is None:
                return torch.vmap(task.logits)(dict(params), x), None
            logits, inputs = torch.vmap(task.forward)(dict(params), x, probe)
            return logits, inputs
        own = {name: value.squeeze(0) for name, value in params.items()}
        scores, entered = task.forward(own, x[0], None if probe is None else probe[0])
        return scores[None], None if entered is None else entered[None]

    return forward


def scores_of(task: Task, device: torch.device) -> Callable[[Params, Tensor], Tensor]:
    """One model's scores [B, C] in evaluation, by the fastest way that is known."""
    task = task.on(device)
    task.model.eval()
    form = _own(task, "single_form") if device.type == "cpu" else None
    if form is None:
        return task.logits

    def scores(params: Params, x: Tensor) -> Tensor:
        return form({name: value[None] for name, value in params.items()}, x[None], None)[0][0]

    return scores


def bytes_of_a_step(
    task: Task, data: ClientData, batch_size: int, *, clients: int, device: torch.device
) -> int | None:
    """Bytes per client that a step keeps, parameters included; None where it cannot be had.

    Found by trying, with ``clients`` copies of a client: scores must be the model's own, also with
    padding. Refused are models without ``vmap``, whose samples see each other, or that draw.
    """
    task = task.on(device)
    params = {name: value.to(device) for name, value in task.initial_params().items()}
    real = data.take(slice(0, max(1, batch_size - 1)))[0].to(device)
    padding = real.new_zeros(batch_size - len(real), *real.shape[1:])
    x = torch.cat([real, padding]).expand(clients, batch_size, *real.shape[1:])
    stack = {n: v.expand(clients, *v.shape).clone().requires_grad_() for n, v in params.items()}
    like = next(iter(params.values()))
    probe = like.new_zeros(clients, batch_size, task.head_width).requires_grad_()
    gpus = [device] if device.type == "cuda" else []
    kept = []

    def count(saved: Tensor) -> Tensor:
        kept.append(saved.nbytes)
        return saved

    try:
        with warnings.catch_warnings(), torch.random.fork_rng(gpus):
            warnings.filterwarnings("error", message=".*batching rule.*")
            before = _random_state(device)
            expected = task.logits(params, real).detach().expand(clients, -1, -1)
            if not torch.equal(before, _random_state(device)):
                return None
            with torch.autograd.graph.saved_tensors_hooks(count, lambda saved: saved):
                scores, _ = form_of(task)(stack, x, probe if task.head_width else None)
            torch.autograd.grad(scores.sum(), [*stack.values(), probe], materialize_grads=True)
    except Exception:
        return None
    tolerance = TOLERANCE[device.type] * (float(expected.abs().max()) + 1e-6)
    if not torch.allclose(scores[:, : len(real)], expected, rtol=0, atol=tolerance):
        return None
    own = sum(value.nbytes for value in params.values())
    return sum(kept) // clients + 3 * own  # the parameters, their gradients, and a copy on the move


def _random_state(device: torch.device) -> Tensor:
    """What a draw would move: the processor's generator, and the device's."""
    own = torch.get_rng_state()
    return torch.cat([own, torch.cuda.get_rng_state(device)]) if device.type == "cuda" else own
