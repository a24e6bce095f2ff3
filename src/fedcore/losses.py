"""Losses of a batch, a number L_j a sample, by name; one of the user's own is such a function.

Of outputs o and targets t of a sample, in the mean over its numbers or positions:

* ``cross-entropy``: log Σ_c exp o_c - o_t; a position with the target -100 does not count
* ``mse``: (o - t)²
* ``huber``: (o - t)² / 2, beyond a distance of one |o - t| - 1/2
* ``bce``: log(1 + exp o) - t o, for targets from 0 to 1: several labels a sample
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from fedcore import plugins
from fedcore.errors import BadData, BadOption
from fedcore.task import Loss
from fedcore.trial import called

CROSS_ENTROPY, IGNORED = "cross-entropy", -100  # the target of padding


def scored(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs [batch, ..., classes] and whole-number targets [batch, ...], if they are that."""
    fits = outputs.shape[:-1] == targets.shape and not targets.is_floating_point()
    return _together("a class for every row of scores", outputs, targets, fits=fits)


def alike(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Both in one shape and type; [batch, 1] goes with [batch], and nothing is broadcast."""
    if outputs.shape == (*targets.shape, 1):
        outputs = outputs.squeeze(-1)
    fits = outputs.shape == targets.shape
    return _together("as many targets as outputs", outputs, targets.to(outputs.dtype), fits=fits)


def _together(
    needed: str, outputs: Tensor, targets: Tensor, *, fits: bool
) -> tuple[Tensor, Tensor]:
    if not fits:
        shapes = f"outputs of shape {tuple(outputs.shape)} and targets {tuple(targets.shape)}"
        raise BadData(f"loss or metric needs {needed}, got {shapes} of type {targets.dtype}")
    return outputs, targets


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean over the positions of a sample that count."""
    outputs, targets = scored(outputs, targets)
    each = functional.cross_entropy(outputs.movedim(-1, 1), targets, reduction="none")
    counted = (targets != IGNORED).reshape(len(targets), -1).sum(1)
    return each.reshape(len(each), -1).sum(1) / counted.clamp(min=1)


def _mean(function: Callable[..., Tensor], outputs: Tensor, targets: Tensor) -> Tensor:
    each = function(*alike(outputs, targets), reduction="none")
    return each.reshape(len(each), -1).mean(1)


LOSSES: dict[str, Loss] = {CROSS_ENTROPY: cross_entropy, "mse": partial(_mean, functional.mse_loss)}
LOSSES["bce"] = partial(_mean, functional.binary_cross_entropy_with_logits)
LOSSES["huber"] = partial(_mean, functional.huber_loss)


def loss_of(given: Any) -> Loss | None:
    """The loss of a name, of a file with a function ``loss``, or what was given, a function.

    None is the cross-entropy of one class a sample, which has fast paths.
    """
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
    found = called(name, loss, outputs, targets)
    if not isinstance(found, Tensor) or found.shape != (len(outputs),):
        is_one = isinstance(found, Tensor)
        got = f"shape {list(found.shape)}" if is_one else f"a {type(found).__name__}"
        what = f"{name} must give one number a sample, of shape [{len(outputs)}], got {got}"
        raise BadOption(f"{what}; leave out its mean, as reduction='none' does")
    if torch.is_grad_enabled() and outputs.requires_grad and not found.requires_grad:
        raise BadOption(f"{name} has no gradient; compute it with torch, of the outputs")
    return found
