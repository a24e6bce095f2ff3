"""Chains of linear layers and pointwise activations, known by what a model calls when it runs."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

from fedcore.client.coresets import Clients
from fedcore.compiled import have_numba
from fedcore.task import Task, has_hooks

# A row a layer: inputs, outputs, biases, kind of activation, what that leaves of negative numbers.
Chain = NDArray[np.float64]
# As ``linear_kernel`` counts them.
ACTIVATIONS = {"relu": 0, "leaky_relu": 0, "tanh": 1, "sigmoid": 2, "silu": 3, "gelu": 4}


class _Watch(TorchFunctionMode):
    """Follows a batch through a model; ``now`` is None behind what is no part of a chain."""

    def __init__(self, batch: Tensor) -> None:
        super().__init__()
        self.now: Tensor | None = batch
        self.used: list[Tensor] = []
        self.layers: list[list[float]] = []

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        output, name = function(*args, **(kwargs or {})), function.__name__
        if isinstance(output, Tensor):
            before, *more = [*args, *(kwargs or {}).values()] or [()]
            known = before is self.now and self._knows(name, before, more, output)
            self.now = output if known else None
        elif name not in ("size", "dim", "__get__"):  # shapes may be asked for, values not
            self.now = None
        return output

    def _knows(self, name: str, before: Tensor, more: list[Any], output: Tensor) -> bool:
        if name in ("flatten", "view", "reshape"):
            return output.shape == before.flatten(1).shape
        if name == "dropout":
            return bool(more[0] == 0)
        if name == "linear" and before.dim() == 2:
            weight, *bias = (value for value in more if value is not None)
            self.used += [weight, *bias]
            self.layers.append([weight.shape[1], len(weight), sum(map(len, bias)), 0, 1])
            return True
        if name not in ACTIVATIONS or not self.layers or self.layers[-1][3:] != [0, 1]:
            return False  # an activation behind every layer, or none
        leak = more.pop(0) if name == "leaky_relu" else float(name != "relu")
        self.layers[-1][3:] = [ACTIVATIONS[name], leak]
        return more in ([], [False], [True], ["none"])  # in place or not; GELU as it is defined


def chain_of(task: Task, clients: Clients) -> Chain | None:
    """The chain that a model of these clients' samples is; None where it is anything else."""
    task = task.on(torch.device("cpu"))
    params, batch = task.initial_params(), next(iter(clients.values())).take(slice(0, 2))[0].cpu()
    try:
        with torch.no_grad(), _Watch(batch) as watch:
            scores = task.logits(params, batch)
    except Exception:  # whatever it is, other executors meet it too
        return None
    used = [(id(value), torch.float32) for value in watch.used]
    whole = watch.now is scores and used == [(id(v), v.dtype) for v in params.values()]
    return np.array(watch.layers) if whole and have_numba() and not has_hooks(task.model) else None
