"""Last-layer gradients by forward passes and the last layer alone: the pass of section 4.4 b)."""

from collections.abc import Iterable

import torch
from torch import Tensor

from fedcore.coreset.proxies import HeadGradients
from fedcore.task import Task, sample_losses
from fedcore.types import Params


def head_gradients(
    task: Task, params: Params, batches: Iterable[tuple[Tensor, Tensor]]
) -> HeadGradients:
    """dL/da, z and L of every sample, in the order in which the batches bring them."""
    fixed = {name: value.detach() for name, value in params.items()}
    parts = []
    for x, y in batches:
        logits, head = task.logits_and_head(fixed, x)
        losses = sample_losses(logits, y)
        (residuals,) = torch.autograd.grad(losses.sum(), head.outputs)
        parts.append(HeadGradients(residuals, head.inputs.detach(), losses.detach()))
    return HeadGradients.gather(parts)
