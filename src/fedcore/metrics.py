"""How good outputs are for targets, in a number, by name; one of the user's own is a function.

* ``accuracy``: share of right answers; ``top-5``: share of targets among the 5 largest outputs
* ``f1``: 2 TP / (2 TP + FP + FN) of every class, in their mean; of several labels a sample as well
* ``mae``: mean of |o - t|; ``r2``: 1 - Σ (o - t)² / Σ (t - mean t)² of every column, in their mean
* ``perplexity``: exp of the mean cross-entropy
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from fedcore import plugins
from fedcore.errors import BadOption
from fedcore.losses import IGNORED, alike, scored
from fedcore.trial import called

Metric = Callable[[Tensor, Tensor], Any]


def right_answers(outputs: Tensor, targets: Tensor) -> Tensor:
    """Samples that are right, in part where a sample has several positions; NaN of no classes."""
    if targets.is_floating_point() or outputs.shape[:-1] != targets.shape or outputs.shape[-1] < 2:
        return torch.tensor(math.nan, device=outputs.device)
    both = outputs.argmax(-1) == targets, targets != IGNORED
    right, counted = (one.reshape(len(targets), -1).sum(1) for one in both)
    return (right / counted.clamp(min=1)).sum()


def _counted(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Scores [n, classes] and classes [n] of all positions but padding."""
    outputs, targets = scored(outputs, targets)
    return outputs[targets != IGNORED], targets[targets != IGNORED]


def _top(most: int, outputs: Tensor, targets: Tensor) -> Tensor:
    scores, classes = _counted(outputs, targets)
    best = scores.topk(min(most, scores.shape[1])).indices
    return (best == classes[:, None]).any(1).double().mean()


def _f1(outputs: Tensor, targets: Tensor) -> Tensor:
    guessed, true = outputs > 0, targets > 0.5
    if outputs.shape != targets.shape:
        scores, classes = _counted(outputs, targets)
        there = torch.unique(torch.cat([scores.argmax(1), classes]))
        guessed, true = (one[:, None] == there for one in (scores.argmax(1), classes))
    each = 2 * (guessed & true).sum(0) / (guessed.sum(0) + true.sum(0)).clamp(min=1)
    return each.double().mean()


def _r2(outputs: Tensor, targets: Tensor) -> Tensor:
    o, t = (one.double() for one in alike(outputs, targets))
    return (1 - (o - t).square().sum(0) / (t - t.mean(0)).square().sum(0)).mean()


METRICS: dict[str, Metric] = {"accuracy": lambda o, t: right_answers(o, t) / len(o), "f1": _f1}
METRICS |= {"top-5": partial(_top, 5), "r2": _r2}
METRICS["mae"] = lambda o, t: torch.sub(*alike(o, t)).abs().double().mean()
METRICS["perplexity"] = lambda o, t: functional.cross_entropy(*_counted(o, t)).exp()


def metrics_of(given: Sequence[Any]) -> dict[str, Metric]:
    """Functions by name, of names, of files with a function ``metric``, and of functions."""
    found: dict[str, Metric] = {}
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise BadOption(f"metrics must be a list of names and functions, got {given!r}")
    for one in given:
        name = getattr(one, "__name__", type(one).__name__) if callable(one) else str(one)
        most = name.removeprefix("top-")
        own = one if callable(one) else METRICS.get(name)
        if own is None and name.endswith(".py"):
            name, own = plugins.title(name), plugins.function("metric", name, "metric")
        elif own is None and most != name and most.isdecimal() and int(most) > 0:
            own = partial(_top, int(most))
        if own is None:
            raise BadOption(plugins.unknown("metric", name, METRICS, see=""))
        if name in found:
            raise BadOption(f"metrics must not name {name!r} twice")
        found[name] = own
    return found


def measured(metrics: Mapping[str, Metric], outputs: Tensor, targets: Tensor) -> dict[str, float]:
    """All of them as numbers."""
    numbers = {name: (lambda o, t, own=own: float(own(o, t))) for name, own in metrics.items()}
    return {
        name: called(f"metric {name!r}", own, outputs, targets) for name, own in numbers.items()
    }
