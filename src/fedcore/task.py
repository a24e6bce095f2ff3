"""A model as pure functions of its parameters, and a look at what enters its last layer."""

import copy
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.parameter import is_lazy

from fedcore.errors import BadOption, FedCoreError, failed
from fedcore.types import Params


@dataclass(frozen=True, slots=True)
class HeadPass:
    """What went through the last linear layer for a batch: ``inputs`` z, ``outputs`` a."""

    inputs: Tensor
    outputs: Tensor


Zeros = Tensor | None  # added to what leaves the last layer
Passed = tuple[Tensor, HeadPass]  # scores, and what passed that layer


class Task:
    """A classifier: any ``nn.Module`` that maps inputs to class scores, with parameters passed in.

    ``head`` names the last linear layer, the ``nn.Linear`` that was registered last if left out.
    """

    def __init__(self, model: nn.Module, head: str | None = None, *, averaged: bool = True) -> None:
        """Refuse what has no values yet, or cannot be trained and ``averaged`` if it is to be."""
        buffers = [name for name, _ in model.named_buffers()]
        if averaged and buffers:
            what = f"model has buffers ({buffers[0]}), which federated averaging does not average"
            raise BadOption(f"{what}; use a layer without running statistics, such as GroupNorm")
        for name, parameter in model.named_parameters():
            if is_lazy(parameter):
                what = f"model has a parameter without a shape yet ({name})"
                instead = "call the model once on a batch, or use a layer that is not lazy"
                raise BadOption(f"{what}; {instead}")
            if parameter.is_meta:
                meta = f"model has a parameter on the meta device ({name})"
                raise BadOption(f"{meta}; load its values")
            if averaged and not bool(torch.isfinite(parameter).all()):
                what = f"model has NaN or infinity in a parameter ({name}) before training"
                raise BadOption(f"{what}; initialise it anew, or load an earlier state")
        linear = {n: module for n, module in model.named_modules() if isinstance(module, nn.Linear)}
        if head is not None and head not in linear:
            raise BadOption(f"head must name one of the linear layers {list(linear)}, got {head!r}")
        self.model = model
        self._head = [None, *linear.values()][-1] if head is None else linear[head]

    def initial_params(self) -> Params:
        """The module's own parameters, copied; frozen ones stay in the module."""
        named = self.model.named_parameters()
        return {name: p.detach().clone() for name, p in named if p.requires_grad}

    def frozen_params(self) -> Params:
        """Copies of the parameters that are not trained."""
        named = self.model.named_parameters()
        return {name: p.detach().clone() for name, p in named if not p.requires_grad}

    def check_layers(self) -> None:
        """Refuse a model of which no part can be trained alone: its layers must have an order."""
        prefix = next((n for n, module in self.model.named_modules() if module is self._head), None)
        last = layers_of(self.initial_params())[-1]
        if prefix is None or not all(name.startswith(prefix) for name in last):
            raise BadOption(
                f"the layers of the model have no order: {last[0]!r} is its last parameter, but "
                "not of its last linear layer; register layers from the input to the output"
            )
        trained_names(self.initial_params(), 0.0)

    def on(self, device: torch.device) -> "Task":
        """A copy whose frozen parameters lie on ``device``, for one thread to call."""
        task = copy.deepcopy(self)
        task.model.to(device)
        return task

    def logits(self, params: Params, x: Tensor) -> Tensor:
        """Class scores [batch, classes]."""
        return _as_tensor(functional_call(self.model, dict(params), (x,)))

    def logits_and_head(self, params: Params, x: Tensor, probe: Zeros = None) -> Passed:
        """Class scores, and what passed the last linear layer on the way.

        A ``probe`` of zeros is added to the layer's output: the gradient of a loss with respect to
        it is dL/da, under ``torch.func.vmap`` too.
        """
        passes: list[HeadPass] = []

        def watch(_: nn.Module, entered: tuple[Any, ...], output: Tensor) -> Tensor:
            if probe is None and not output.requires_grad:
                output.requires_grad_()  # where nothing before it is differentiated, we begin here
            passes.append(HeadPass(entered[0], output))
            if probe is None:
                return output
            _check_passes(passes[-1:], len(x))  # before shapes clash
            return output + probe

        handle = self._needed_head().register_forward_hook(watch)
        try:
            logits = self.logits(params, x)
        finally:
            handle.remove()
        _check_passes(passes, len(x))
        return logits, passes[0]

    def forward(self, params: Params, x: Tensor, probe: Zeros) -> tuple[Tensor, Tensor | None]:
        """Class scores, and what entered the last layer where a ``probe`` is given."""
        if probe is None:
            return self.logits(params, x), None
        logits, head = self.logits_and_head(params, x, probe)
        return logits, head.inputs

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
        head = self._needed_head()
        for name, parameter in self.model.named_parameters():  # a tied weight has one name
            if parameter is head.weight:
                return params.get(name, parameter)
        # A layer that computes W of other parameters answers with it to unit vectors.
        name = next(name for name, module in self.model.named_modules() if module is head)
        prefix = f"{name}." if name else ""
        own = {n.removeprefix(prefix): v for n, v in params.items() if n.startswith(prefix)}
        like = next(iter(own.values()))
        units = torch.eye(head.in_features, dtype=like.dtype, device=like.device)
        answers = _as_tensor(functional_call(head, own, (units,)))
        return (answers - _as_tensor(functional_call(head, own, (torch.zeros_like(units[:1]),)))).T

    def _needed_head(self) -> nn.Linear:
        if self._head is None:
            raise BadOption("proxy needs a model with an nn.Linear as its last layer; it has none")
        return self._head


def layers_of(names: Iterable[str]) -> list[list[str]]:
    """Parameters by layer, in their order: those of a module, or of a level such as ``_l0``."""
    layers: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        module, _, own = name.rpartition(".")
        level = re.findall(r"_l\d+", own)  # nn.LSTM and its like hold many layers
        layers.setdefault((module, *level[-1:]), []).append(name)
    return list(layers.values())


def trained_names(params: Params, share: float) -> list[str]:
    """The layers nearest the output with at most a ``share`` of all parameters; one at least."""
    layers = layers_of(params)
    if len(layers) < 2:
        what = f"the model has one layer, so it cannot be trained in part (a share of {share:g})"
        raise BadOption(f"{what}; use a model of several layers, or another strategy")
    sizes = [sum(params[name].numel() for name in layer) for layer in layers]
    fits = (n for n in range(len(layers)) if sum(sizes[n:]) <= share * sum(sizes))
    first = min(next(fits, len(layers)), len(layers) - 1)
    return [name for layer in layers[first:] for name in layer]


def sent_bytes(params: Params, share: float) -> int:
    """Bytes of the answer of a client that trains a share of a model."""
    names = params if share == 1 else trained_names(params, share)
    return sum(params[name].numel() * params[name].element_size() for name in names)


def sample_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """L_j(w) for every sample of a batch: the cross-entropy."""
    return functional.cross_entropy(logits, labels, reduction="none")


@contextmanager
def naming(model: nn.Module) -> Iterator[None]:
    """Turn what a module raises inside into a sentence that names the model."""
    try:
        yield
    except (FedCoreError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        if any(isinstance(frame.f_locals.get("self"), nn.Module) for frame in frames):
            outside = isinstance(error, IndexError)  # all that torch says of an embedding
            hint = "; see whether inputs are in the range of its embedding" if outside else ""
            raise failed(f"model {type(model).__name__}", error, hint) from error
        raise


def count_classes(score: Callable[[Tensor], Any], batch: Tensor) -> int:
    """How many classes a model scores; one that cannot read the batch is refused in a sentence."""
    try:
        scores = score(batch)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        hint = "" if batch.is_floating_point() else " (cast them to floating point, or see)"
        kind, reason = str(batch.dtype).removeprefix("torch."), str(error).partition("\n")[0]
        what = f"model cannot take a batch of inputs {list(batch.shape)} of type {kind}{hint}"
        raise BadOption(f"{what}: {reason or type(error).__name__}") from error
    if not isinstance(scores, Tensor) or scores.dim() != 2 or len(scores) != len(batch):
        found = list(scores.shape) if isinstance(scores, Tensor) else f"a {type(scores).__name__}"
        what = "model must map a batch of inputs to class scores [batch, classes]"
        raise BadOption(f"{what}, got {found} for {len(batch)} samples")
    return scores.shape[1]


def _check_passes(passes: list[HeadPass], batch: int) -> None:
    """A sample's last-layer gradient is one row: the layer must run once, with a row a sample."""
    if len(passes) != 1:
        often = f"{len(passes)} times for one batch, not once"
        raise BadOption(f"the last linear layer ran {often}; name another layer as head")
    shape = tuple(passes[0].outputs.shape)
    if len(shape) != 2 or shape[0] != batch:
        what = f"the last linear layer gave {shape} numbers for a batch of {batch}"
        raise BadOption(f"{what}, not one row a sample; name another layer as head")


def has_hooks(model: nn.Module) -> bool:
    """Whether somebody hung hooks on a model, so that its layers may not do what they say."""
    return any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def _as_tensor(output: Any) -> Tensor:
    if not isinstance(output, torch.Tensor):
        raise BadOption(f"model must return a tensor of scores, got {type(output).__name__}")
    return output
