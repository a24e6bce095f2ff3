"""Losses, a number L_j a sample, and metrics, a number for all; by name, or users' own functions.

Losses of outputs o and targets t of a sample, in the mean over its numbers or positions:

* ``cross-entropy``: log Σ_c exp o_c - o_t; a position with the target -100 does not count
* ``mse``: (o - t)²
* ``huber``: (o - t)² / 2, beyond a distance of one |o - t| - 1/2
* ``bce``: log(1 + exp o) - t o, for targets from 0 to 1: several labels a sample

Metrics:

* ``accuracy``: share of right answers; ``top-5``: share of targets among the 5 largest outputs
* ``f1``: 2 TP / (2 TP + FP + FN) of every class, in their mean; of several labels a sample as well
* ``mae``: mean of |o - t|; ``r2``: 1 - Σ (o - t)² / Σ (t - mean t)² of every column, in their mean
* ``perplexity``: exp of the mean cross-entropy
"""

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from fedcore import plugins
from fedcore.errors import BadData, BadOption, blaming
from fedcore.task import Loss, Metrics

Metric = Callable[[Tensor, Tensor], Any]
CROSS_ENTROPY, IGNORED = "cross-entropy", -100  # the target of padding


def fitted(outputs: Tensor, targets: Tensor, *, classes: bool = False) -> tuple[Tensor, Tensor]:
    """Scores [batch, ..., classes] with classes, or both alike: [batch, 1] goes with [batch]."""
    if not classes and outputs.shape == (*targets.shape, 1):
        outputs = outputs.squeeze(-1)
    shape = outputs.shape[:-1] if classes else outputs.shape
    if shape != targets.shape or (classes and targets.is_floating_point()):  # nothing is broadcast
        needed = "a class for every row of scores" if classes else "as many targets as outputs"
        shapes = f"outputs of shape {tuple(outputs.shape)} and targets {tuple(targets.shape)}"
        raise BadData(f"loss or metric needs {needed}, got {shapes} of type {targets.dtype}")
    return outputs, targets if classes else targets.to(outputs.dtype)


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean over the positions of a sample that count."""
    outputs, targets = fitted(outputs, targets, classes=True)
    each = functional.cross_entropy(outputs.movedim(-1, 1), targets, reduction="none")
    counted = (targets != IGNORED).reshape(len(targets), -1).sum(1)
    return each.reshape(len(each), -1).sum(1) / counted.clamp(min=1)


def _mean(function: Callable[..., Tensor], outputs: Tensor, targets: Tensor) -> Tensor:
    each = function(*fitted(outputs, targets), reduction="none")
    return each.reshape(len(each), -1).mean(1)


LOSSES: dict[str, Loss] = {CROSS_ENTROPY: cross_entropy, "mse": partial(_mean, functional.mse_loss)}
LOSSES["bce"] = partial(_mean, functional.binary_cross_entropy_with_logits)
LOSSES["huber"] = partial(_mean, functional.huber_loss)


def loss_of(given: Any) -> Loss | None:
    """The loss of a name, file or function; None: cross-entropy, which has fast paths."""
    if isinstance(given, str) and given.endswith(".py"):
        given = plugins.function("loss", given, "loss")
    if callable(given):
        return partial(_checked, given)
    if not isinstance(given, str) or given not in LOSSES:
        raise BadOption(plugins.unknown("loss", str(given), LOSSES, see="") + ", or a function")
    return None if given == CROSS_ENTROPY else LOSSES[given]


def _checked(loss: Callable[[Tensor, Tensor], Any], outputs: Tensor, targets: Tensor) -> Tensor:
    """What a loss of the user's own gives, refused where it is not a number a sample."""
    name = f"loss {getattr(loss, '__name__', type(loss).__name__)!r}"
    found = _called(name, loss, outputs, targets)
    if not isinstance(found, Tensor) or found.shape != (len(outputs),):
        got = f"shape {list(found.shape)}" if hasattr(found, "shape") else type(found).__name__
        what = f"{name} must give one number a sample, of shape [{len(outputs)}], got {got}"
        raise BadOption(f"{what}; leave out its mean, as reduction='none' does")
    if torch.is_grad_enabled() and outputs.requires_grad and not found.requires_grad:
        raise BadOption(f"{name} has no gradient; compute it with torch, of the outputs")
    return found


def right_answers(outputs: Tensor, targets: Tensor) -> Tensor:
    """Samples that are right, in part where a sample has several positions; NaN of no classes."""
    if targets.is_floating_point() or outputs.shape[:-1] != targets.shape or outputs.shape[-1] < 2:
        return torch.tensor(math.nan, device=outputs.device)
    both = outputs.argmax(-1) == targets, targets != IGNORED
    right, counted = (one.reshape(len(targets), -1).sum(1) for one in both)
    return (right / counted.clamp(min=1)).sum()


def _counted(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Scores [n, classes] and classes [n] of all positions but padding."""
    outputs, targets = fitted(outputs, targets, classes=True)
    if outputs.shape[-1] < 2:
        raise BadData("metric needs scores of two classes or more, got one number a sample")
    return outputs[targets != IGNORED], targets[targets != IGNORED]


def _top(most: int, outputs: Tensor, targets: Tensor) -> Tensor:
    scores, classes = _counted(outputs, targets)
    best = scores.topk(min(most, scores.shape[1])).indices
    return (best == classes[:, None]).any(1).double().mean()


def _f1(outputs: Tensor, targets: Tensor) -> Tensor:
    if outputs.shape in (targets.shape, (*targets.shape, 1)):
        outputs, targets = fitted(outputs, targets)
        if not ((targets == 0) | (targets == 1)).all():
            raise BadData("metric needs classes, or labels of 0 and 1")
        guessed, true = outputs > 0, targets == 1
    else:
        scores, classes = _counted(outputs, targets)
        there = torch.unique(torch.cat([scores.argmax(1), classes]))
        guessed, true = (one[:, None] == there for one in (scores.argmax(1), classes))
    both, either = (guessed & true).sum(0), guessed.sum(0) + true.sum(0)
    return (2 * both / either.clamp(min=1)).double().mean()


def _r2(outputs: Tensor, targets: Tensor) -> Tensor:
    o, t = (one.double() for one in fitted(outputs, targets))
    return (1 - (o - t).square().sum(0) / (t - t.mean(0)).square().sum(0)).mean()


METRICS: dict[str, Metric] = {"accuracy": lambda o, t: right_answers(o, t) / len(o), "f1": _f1}
METRICS |= {"top-5": partial(_top, 5), "r2": _r2}
METRICS["mae"] = lambda o, t: torch.sub(*fitted(o, t)).abs().double().mean()
METRICS["perplexity"] = lambda o, t: functional.cross_entropy(*_counted(o, t)).exp()


def metrics_of(given: Sequence[Any]) -> dict[str, Metric]:
    """Functions by name, of names, of files with a function ``metric``, and of functions."""
    found: dict[str, Metric] = {}
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise BadOption(f"metrics must be a list of names and functions, got {given!r}")
    for one in given:
        name = getattr(one, "__name__", type(one).__name__) if callable(one) else str(one)
        own = one if callable(one) else METRICS.get(name)
        if own is None and name.endswith(".py"):
            name, own = plugins.title(name), plugins.function("metric", name, "metric")
        elif own is None and re.fullmatch("top-[1-9][0-9]*", name):
            own = partial(_top, int(name[4:]))
        if own is None or name in found:
            twice = f"metrics must not name {name!r} twice" if own else ""
            raise BadOption(twice or plugins.unknown("metric", name, METRICS, see=""))
        found[name] = own
    return found


def measured(metrics: Metrics, outputs: Tensor, targets: Tensor) -> dict[str, float]:
    """All of them as numbers."""
    numbers = {name: (lambda o, t, own=own: float(own(o, t))) for name, own in metrics.items()}
    return {n: _called(f"metric {n!r}", own, outputs, targets) for n, own in numbers.items()}


def _called(what: str, own: Callable[..., Any], outputs: Tensor, targets: Tensor) -> Any:
    with blaming(f"{what} of outputs {list(outputs.shape)} and targets {list(targets.shape)}"):
        return own(outputs, targets)
