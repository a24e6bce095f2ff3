"""A model as pure functions of its parameters, and a look at what enters its last layer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from fedcore.errors import BadOption
from fedcore.types import Params


@dataclass(frozen=True, slots=True)
class HeadPass:
    """What went through the last linear layer for a batch: ``inputs`` z, ``outputs`` a."""

    inputs: Tensor
    outputs: Tensor


class Task:
    """A classifier: any ``nn.Module`` that maps a batch of inputs to class scores.

    The module is only a recipe here: parameters are always passed in. ``head`` names the last
    linear layer; left out, it is the last ``nn.Linear`` in the order of registration.
    """

    def __init__(self, model: nn.Module, head: str | None = None, *, averaged: bool = True) -> None:
        """Check that the model can be averaged, if it is to be, and find its last linear layer."""
        buffers = [name for name, _ in model.named_buffers()]
        if averaged and buffers:
            raise BadOption(
                f"model has buffers ({buffers[0]}), which federated averaging does not average; "
                "use a layer without running statistics, such as GroupNorm"
            )
        self.model = model
        self._head = _find_head(model, head)

    def initial_params(self) -> Params:
        """The module's own parameters, copied."""
        return {name: p.detach().clone() for name, p in self.model.named_parameters()}

    def logits(self, params: Params, x: Tensor) -> Tensor:
        """Class scores [batch, classes]."""
        return _as_tensor(functional_call(self.model, dict(params), (x,)))

    def logits_and_head(self, params: Params, x: Tensor) -> tuple[Tensor, HeadPass]:
        """Class scores, and what passed the last linear layer on the way."""
        if self._head is None:
            raise BadOption("proxy needs a model with an nn.Linear as its last layer; it has none")
        with _watching(self._head) as passes:
            logits = self.logits(params, x)
        if len(passes) != 1:
            raise BadOption(_ran(len(passes)))
        return logits, passes[0]

    def probed(self, params: Params, x: Tensor, probe: Tensor) -> tuple[Tensor, Tensor]:
        """Class scores, and what entered the last linear layer; ``probe`` is added to its output.

        With a probe of zeros nothing changes, and the gradient of a loss with respect to it is
        dL/da. Unlike a look at the output itself, this holds under ``torch.func.vmap`` too.
        """
        if self._head is None:
            raise BadOption("proxy needs a model with an nn.Linear as its last layer; it has none")
        inputs: list[Tensor] = []

        def add(_: nn.Module, entered: tuple[Any, ...], output: Tensor) -> Tensor:
            inputs.append(entered[0])
            return output + probe

        handle = self._head.register_forward_hook(add)
        try:
            logits = self.logits(params, x)
        finally:
            handle.remove()
        if len(inputs) != 1:
            raise BadOption(_ran(len(inputs)))
        return logits, inputs[0]

    @property
    def head_width(self) -> int:
        """How many numbers leave the last linear layer; 0 where there is none."""
        return 0 if self._head is None else self._head.out_features

    @property
    def head_has_bias(self) -> bool:
        """Whether the last linear layer adds a bias."""
        return self._head is not None and self._head.bias is not None

    def head_weight(self, params: Params) -> Tensor:
        """Weight W [classes, features] of the last linear layer."""
        for name, module in self.model.named_modules():
            if module is self._head:
                return params[f"{name}.weight" if name else "weight"]
        raise BadOption("proxy needs a model with an nn.Linear as its last layer; it has none")


def sample_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """L_j(w) for every sample of a batch: the cross-entropy."""
    return functional.cross_entropy(logits, labels, reduction="none")


def _find_head(model: nn.Module, name: str | None) -> nn.Linear | None:
    linear = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear)}
    if name is None:
        return list(linear.values())[-1] if linear else None
    if name not in linear:
        raise BadOption(f"head must name one of the linear layers {list(linear)}, got {name!r}")
    return linear[name]


@contextmanager
def _watching(head: nn.Linear) -> Iterator[list[HeadPass]]:
    passes: list[HeadPass] = []

    def remember(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        # Where nothing before it is differentiated, the graph begins here.
        output = output if output.requires_grad else output.requires_grad_()
        passes.append(HeadPass(inputs[0], output))
        return output

    handle = head.register_forward_hook(remember)
    try:
        yield passes
    finally:
        handle.remove()


def _ran(times: int) -> str:
    return (
        f"the last linear layer ran {times} times for one batch, not once; "
        "name another layer as head"
    )


def _as_tensor(output: Any) -> Tensor:
    if not isinstance(output, torch.Tensor):
        raise BadOption(f"model must return a tensor of scores, got {type(output).__name__}")
    return output
