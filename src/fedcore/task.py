"""A model as pure functions of its parameters, and what is wrong with it, in a sentence."""

import copy
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

from fedcore.bundle import Inputs, parts_of
from fedcore.errors import BadOption, FedCoreError, failed
from fedcore.types import Params

Loss = Callable[[Tensor, Tensor], Tensor]  # L_j [batch] of outputs and targets
Metrics = Mapping[str, Callable[[Tensor, Tensor], Any]]  # by name, of the same
BATCH_NORM = ("average", "local", "frozen")
Zeros = Tensor | None  # added to what leaves the last layer


@dataclass(frozen=True, slots=True)
class Terms:
    """What a model is trained and measured by; the first three are more than fast paths know."""

    loss: Loss | None = None  # None: cross-entropy, a class a sample
    batch_norm: str = "refuse"  # or what becomes of running statistics; "keep": nothing is trained
    bf16: bool = False  # forward passes in bfloat16, parameters and losses as they are
    metrics: Metrics = field(default_factory=dict, compare=False)


CLASSES = Terms()


class Task:
    """Any ``nn.Module`` that maps inputs to outputs, with parameters passed in, and its loss.

    ``head`` names the last linear layer, the ``nn.Linear`` that was registered last if left out.
    """

    def __init__(self, model: nn.Module, head: str | None = None, terms: Terms = CLASSES) -> None:
        """Refuse what has no values yet, or cannot be trained and averaged if it is to be."""
        if hasattr(model, "_orig_mod"):
            what = "model was made by torch.compile, whose code takes no parameters from outside"
            raise BadOption(f"{what}; give the module itself")
        self.model, self.terms = model, terms
        self._first = {name: value.clone() for name, value in self.statistics().items()}
        if self._first and terms.batch_norm == "refuse":
            what = f"model has buffers ({next(iter(self._first))}); choose batch_norm"
            other = "use a layer without running statistics, such as GroupNorm"
            raise BadOption(f"{what} {', '.join(BATCH_NORM[:-1])} or {BATCH_NORM[-1]}, or {other}")
        for name, parameter in model.named_parameters():
            if is_lazy(parameter):
                what = f"model has a parameter without a shape yet ({name})"
                raise BadOption(f"{what}; call the model once on a batch")
            if parameter.is_meta:
                raise BadOption(f"model has a parameter on the meta device ({name}); load it")
            if terms.batch_norm != "keep" and not bool(torch.isfinite(parameter).all()):
                what = f"model has NaN or infinity in a parameter ({name}) before training"
                raise BadOption(f"{what}; initialise it anew, or load an earlier state")
        linear = {n: module for n, module in model.named_modules() if isinstance(module, nn.Linear)}
        if head is not None and head not in linear:
            raise BadOption(f"head must name one of the linear layers {list(linear)}, got {head!r}")
        self._head = [None, *linear.values()][-1] if head is None else linear[head]

    def initial_params(self) -> Params:
        """What is trained, and statistics that are averaged, copied; the rest stays in place."""
        every = self.model.named_parameters()
        trained = {name: p.detach().clone() for name, p in every if p.requires_grad}
        sent = self.statistics() if self.terms.batch_norm == "average" else {}
        return {**trained, **{name: value.clone() for name, value in sent.items()}}

    def saved(self, params: Params) -> Params:
        """All that a module saves, with ``params`` as they were trained; tied ones by each name."""
        every = chain(self.model.named_parameters(), self.model.named_buffers())
        first = {id(value): name for name, value in every}
        named = self.model.state_dict(keep_vars=True).items()
        kept = ((n, v, first.get(id(v), n)) for n, v in named if isinstance(v, Tensor))
        return {n: params[own] if own in params else v.detach().clone() for n, v, own in kept}

    def statistics(self) -> dict[str, Tensor]:
        """Buffers that the module saves, as they are now: a pass in training changes them."""
        saved = self.model.state_dict().keys()
        return {name: value for name, value in self.model.named_buffers() if name in saved}

    def begin(self, params: Params) -> Params:
        """Put statistics in place that were sent, else the first; gives what is to be trained."""
        own = self.statistics()
        for name, value in own.items():
            value.copy_(params.get(name, self._first[name]))
        return {name: value for name, value in params.items() if name not in own}

    def check_layers(self) -> None:
        """Refuse a model of which no part can be trained alone: its layers must have an order."""
        prefix = next((n for n, module in self.model.named_modules() if module is self._head), None)
        last = layers_of(self.initial_params())[-1]
        if prefix is None or not all(name.startswith(prefix) for name in last):
            what = f"the layers of the model have no order: {last[0]!r} is its last parameter, but"
            raise BadOption(f"{what} not of its head; register layers from the input to the output")
        trained_names(self.initial_params(), 0.0)

    def on(self, device: torch.device) -> "Task":
        """A copy whose frozen parameters lie on ``device``, for one thread to call."""
        task = copy.deepcopy(self)
        task.model.to(device)
        return task

    def logits(self, params: Params, x: Inputs) -> Tensor:
        """What the model gives for a batch: class scores [batch, classes], or other outputs."""
        how = self.terms.batch_norm
        for norm in self.model.modules() if how in BATCH_NORM else ():
            if isinstance(norm, _NormBase):
                # A single sample has no variance; statistics that stay local reach no evaluation.
                by_batch = how == "local" or (how == "average" and self.model.training)
                norm.training = by_batch and len(x) > 1
        parts = {0: x} if isinstance(x, Tensor) else x.parts
        places = tuple(part for name, part in parts.items() if isinstance(name, int))
        names = {name: part for name, part in parts.items() if isinstance(name, str)}
        if not self.terms.bf16:
            return as_outputs(functional_call(self.model, dict(params), places, names))
        with torch.autocast(next(iter(parts.values())).device.type, torch.bfloat16):
            return as_outputs(functional_call(self.model, dict(params), places, names)).float()

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """L_j(w) for every sample of a batch."""
        return (self.terms.loss or sample_losses)(outputs, targets)

    def forward(self, params: Params, x: Inputs, probe: Zeros) -> tuple[Tensor, Tensor | None]:
        """Class scores, and what entered the last linear layer where a ``probe`` is given.

        A probe of zeros [batch, classes] is added to what leaves that layer: the gradient of a loss
        with respect to it is dL/da, under ``torch.func.vmap`` too. Of a layer that runs at several
        positions of a sample it is their sum Σ_t dL/da_t, and what entered has no columns.
        """
        if probe is None:
            return self.logits(params, x), None
        seen: list[Tensor] = []

        def watch(_: nn.Module, entered: Any, named: Mapping[str, Any], output: Tensor) -> Tensor:
            if output.dim() < 2 or len(output) != len(x):
                what = f"the last linear layer gave {tuple(output.shape)} numbers"
                other = f"for a batch of {len(x)}, not one row a sample; name another layer as head"
                raise BadOption(f"{what} {other}")
            inputs = (entered or [*named.values()])[0]
            inputs = inputs if output.dim() == 2 else inputs.flatten(1)[:, :0]
            seen.append(inputs.float() if self.terms.bf16 else inputs)
            return output + probe.view(len(probe), *[1] * (output.dim() - 2), -1)

        with self._needed_head().register_forward_hook(watch, with_kwargs=True):
            scores = self.logits(params, x)
        if len(seen) != 1:
            what = f"the last linear layer ran {len(seen)} times"
            raise BadOption(f"{what}; name another one as head")
        return scores, seen[0]

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
        answers = as_outputs(functional_call(head, own, (units,)))
        return (answers - as_outputs(functional_call(head, own, (torch.zeros_like(units[:1]),)))).T

    def _needed_head(self) -> nn.Linear:
        if self._head is None:
            got = f"got a {type(self.model).__name__} without one; use proxy 'input'"
            raise BadOption(f"proxy needs a model with an nn.Linear as its last layer, {got}")
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
    """The layers nearest the output, at most a ``share`` of all parameters, or one; 1: them all."""
    if share == 1:
        return list(params)
    layers = layers_of(params)
    if len(layers) < 2:
        what = f"the model has one layer, so it cannot be trained in part (a share of {share:g})"
        raise BadOption(f"{what}; use a model of several layers, or another strategy")
    sizes = [sum(params[name].numel() for name in layer) for layer in layers]
    fits = (n for n in range(len(layers)) if sum(sizes[n:]) <= share * sum(sizes))
    return [name for layer in layers[next(fits, len(layers) - 1) :] for name in layer]


def sent_bytes(params: Params, share: float) -> int:
    """Bytes of the answer of a client that trains a share of a model."""
    return sum(params[name].nbytes for name in trained_names(params, share))


def sample_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """L_j(w) for every sample of a batch: the cross-entropy."""
    return functional.cross_entropy(logits, labels, reduction="none")


def has_hooks(model: nn.Module) -> bool:
    """Whether somebody hung hooks on a model, so that its layers may not do what they say."""
    return any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def as_outputs(given: Any) -> Tensor:
    """A model's tensor of outputs: what it returns, or ``logits`` of a dict or an object."""
    found = given.get("logits") if isinstance(given, Mapping) else getattr(given, "logits", given)
    if not isinstance(found, Tensor):
        got = f"a dict of {list(given)}" if isinstance(given, Mapping) else type(given).__name__
        raise BadOption(f"model must return a tensor of scores, alone or as 'logits', got {got}")
    return found


@contextmanager
def naming(model: nn.Module) -> Iterator[None]:
    """Turn what a module raises inside into a sentence that names the model."""
    try:
        yield
    except (FedCoreError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
        if not any(isinstance(frame.f_locals.get("self"), nn.Module) for frame in frames):
            raise
        outside = isinstance(error, IndexError)  # all that torch says of an embedding
        hint = "; see whether inputs are in the range of its embedding" if outside else ""
        raise failed(f"model {type(model).__name__}", error, hint) from error


def outputs_of(score: Callable[[Inputs], Tensor], batch: Inputs, *, classes: bool) -> Tensor:
    """What a model gives for a batch, a row a sample: scores of ``classes``, or other outputs."""
    try:
        found = score(batch)
    except (FedCoreError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        parts = parts_of(batch).values()
        floating = all(part.is_floating_point() for part in parts)
        hint = "" if floating else " (cast them to floating point, or see)"
        kinds = " and ".join(f"{list(part.shape)} of type {part.dtype}" for part in parts)
        what = f"model cannot take a batch of inputs {kinds}{hint}".replace("torch.", "")
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise BadOption(f"{what}: {reason}") from error
    if found.dim() == 0 or len(found) != len(batch) or (classes and found.dim() != 2):
        form = "class scores [batch, classes]" if classes else "outputs, a row a sample"
        got = f"got {list(found.shape)} for {len(batch)} samples"
        raise BadOption(f"model must map a batch of inputs to {form}, {got}")
    return found
