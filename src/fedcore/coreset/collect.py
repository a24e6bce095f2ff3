"""Last-layer gradients of a model on data, by forward passes and the last layer alone.

This is the cheap pass of section 4.4 b): "almost as cheap as calculating the loss". The graph
begins at the last layer's output, so the backward pass touches nothing before it.
"""

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
    return HeadGradients.gather([_batch(task, fixed, x, y) for x, y in batches])


def _batch(task: Task, params: Params, x: Tensor, y: Tensor) -> HeadGradients:
    logits, head = task.logits_and_head(params, x)
    losses = sample_losses(logits, y)
    (residuals,) = torch.autograd.grad(losses.sum(), head.outputs)
    return HeadGradients(residuals, head.inputs.detach(), losses.detach())
