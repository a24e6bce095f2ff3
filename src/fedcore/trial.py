"""Users' models and losses at their first call: what is wrong with them, in a sentence."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fedcore.bundle import Inputs, parts_of
from fedcore.errors import BadOption, FedCoreError, failed


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


def outputs_of(score: Callable[[Inputs], Tensor], batch: Inputs, *, classes: bool) -> Tensor:
    """What a model gives for a batch, a row a sample: scores of ``classes``, or other outputs."""
    parts = list(parts_of(batch).values())
    try:
        found = score(batch)
    except (FedCoreError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        floating = all(part.is_floating_point() for part in parts)
        hint = "" if floating else " (cast them to floating point, or see)"
        kinds = [f"{list(part.shape)} of type {part.dtype}" for part in parts]
        what = f"model cannot take a batch of inputs {' and '.join(kinds)}{hint}"
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise BadOption(f"{what.replace('torch.', '')}: {reason}") from error
    if found.dim() == 0 or len(found) != len(batch) or (classes and found.dim() != 2):
        form = "class scores [batch, classes]" if classes else "outputs, a row a sample"
        what = f"model must map a batch of inputs to {form}"
        raise BadOption(f"{what}, got {list(found.shape)} for {len(batch)} samples")
    return found


def checked(loss: Callable[[Tensor, Tensor], Any], outputs: Tensor, targets: Tensor) -> Tensor:
    """What a loss of the user's own gives, refused where it is not a number a sample."""
    name = f"loss {getattr(loss, '__name__', type(loss).__name__)!r}"
    try:
        found = loss(outputs, targets)
    except (FedCoreError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        shapes = f" for outputs {list(outputs.shape)} and targets {list(targets.shape)}"
        raise failed(f"{name}{shapes}", error) from error
    if not isinstance(found, Tensor) or found.shape != (len(outputs),):
        is_tensor = isinstance(found, Tensor)
        got = f"shape {list(found.shape)}" if is_tensor else f"a {type(found).__name__}"
        what = f"{name} must give one number a sample, of shape [{len(outputs)}], got {got}"
        raise BadOption(f"{what}; leave out its mean, as reduction='none' does")
    if torch.is_grad_enabled() and outputs.requires_grad and not found.requires_grad:
        raise BadOption(f"{name} has no gradient; compute it with torch, of the outputs")
    return found
