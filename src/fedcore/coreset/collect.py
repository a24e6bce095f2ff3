"""Last-layer gradients by forward passes and the last layer alone: the pass of section 4.4 b)."""

from collections.abc import Iterable

import torch
from torch import Tensor

from fedcore.bundle import Inputs
from fedcore.coreset.proxies import HeadGradients
from fedcore.task import Task
from fedcore.types import Params


def head_gradients(
    task: Task, params: Params, batches: Iterable[tuple[Inputs, Tensor]]
) -> HeadGradients:
    """dL/da, z and L of every sample, in the order in which the batches bring them."""
    fixed = {name: value.detach() for name, value in params.items()}
    parts = []
    for x, y in batches:
        logits, head = task.logits_and_head(fixed, x)
        losses = task.losses(logits, y)
        (residuals,) = torch.autograd.grad(losses.sum(), head.outputs)
        if residuals.dim() > 2:  # a layer that runs at several positions of a sample
            residuals = residuals.flatten(1, -2).sum(1)
        parts.append(HeadGradients(residuals.to(losses), head.inputs.detach(), losses.detach()))
    return HeadGradients.gather(parts)
