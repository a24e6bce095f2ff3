"""Calls of users' models, losses and metrics: what is wrong with them, in a sentence."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fedcore.bundle import Inputs, parts_of
from fedcore.errors import BadOption, FedCoreError, blaming, failed


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
        kinds = " and ".join(f"{list(part.shape)} of type {part.dtype}" for part in parts)
        what = f"model cannot take a batch of inputs {kinds}{hint}".replace("torch.", "")
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise BadOption(f"{what}: {reason}") from error
    if found.dim() == 0 or len(found) != len(batch) or (classes and found.dim() != 2):
        form = "class scores [batch, classes]" if classes else "outputs, a row a sample"
        got = f"got {list(found.shape)} for {len(batch)} samples"
        raise BadOption(f"model must map a batch of inputs to {form}, {got}")
    return found


def called(what: str, own: Callable[..., Any], outputs: Tensor, targets: Tensor) -> Any:
    """What a loss or a metric gives."""
    shapes = f"outputs {list(outputs.shape)} and targets {list(targets.shape)}"
    with blaming(f"{what} of {shapes}"):
        return own(outputs, targets)
