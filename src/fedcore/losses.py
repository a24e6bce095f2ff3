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

from torch import Tensor
from torch.nn import functional

from fedcore import plugins
from fedcore.errors import BadData, BadOption
from fedcore.trial import checked

Loss = Callable[[Tensor, Tensor], Tensor]
IGNORED = -100  # the target of padding


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Of outputs [batch, ..., classes] and whole-number targets [batch, ...]."""
    if outputs.shape[:-1] != targets.shape or targets.is_floating_point():
        raise clash(outputs, targets, "a class for every row of scores")
    each = functional.cross_entropy(outputs.movedim(-1, 1), targets, reduction="none")
    counted = (targets != IGNORED).reshape(len(targets), -1).sum(1)
    return each.reshape(len(each), -1).sum(1) / counted.clamp(min=1)


def alike(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Both in one shape and type; [batch, 1] goes with [batch], and nothing is broadcast."""
    if outputs.shape == (*targets.shape, 1):
        outputs = outputs.squeeze(-1)
    if outputs.shape != targets.shape:
        raise clash(outputs, targets, "as many targets as outputs")
    return outputs, targets.to(outputs.dtype)


def _by_number(function: Callable[..., Tensor]) -> Loss:
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        each = function(*alike(outputs, targets), reduction="none")
        return each.reshape(len(each), -1).mean(1)

    return loss


def clash(outputs: Tensor, targets: Tensor, needed: str) -> BadData:
    """The refusal of shapes that do not go together."""
    shapes = f"outputs of shape {tuple(outputs.shape)} and targets {tuple(targets.shape)}"
    return BadData(f"loss or metric needs {needed}, got {shapes} of type {targets.dtype}")


CROSS_ENTROPY = "cross-entropy"
LOSSES: dict[str, Loss] = {CROSS_ENTROPY: cross_entropy, "mse": _by_number(functional.mse_loss)}
LOSSES["bce"] = _by_number(functional.binary_cross_entropy_with_logits)
LOSSES["huber"] = _by_number(functional.huber_loss)


def loss_of(given: Any) -> Loss | None:
    """The loss of a name, of a file with a function ``loss``, or what was given, a function.

    None is the cross-entropy of one class a sample, which has fast paths.
    """
    if isinstance(given, str):
        if given.endswith(".py"):
            return partial(checked, plugins.function("loss", given, "loss"))
        if given not in LOSSES:
            raise BadOption(plugins.unknown("loss", given, LOSSES, see="") + ", or a .py file")
        return None if given == CROSS_ENTROPY else LOSSES[given]
    if not callable(given):
        must = "a name or a function (outputs, targets) -> [batch]"
        raise BadOption(f"loss must be {must}, got {type(given).__name__}")
    return partial(checked, given)
