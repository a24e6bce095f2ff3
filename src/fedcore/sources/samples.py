"""Samples as models take them: tensors, whose inputs have one shape and type for all clients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedcore.errors import BadData
from fedcore.types import ClientData


def as_samples(
    owner: str, given: ClientData | tuple[Any, Any], floating: torch.dtype
) -> ClientData:
    """The same samples as tensors: inputs with a fraction as ``floating``, labels as int64.

    Labels with a fraction stay as they are: whoever checks the data refuses them.

    Args:
        owner: whose they are, for the sentence that refuses them.
        given: NumPy arrays or tensors, as (inputs, labels) or ``ClientData``.
        floating: the type of the model's parameters.
    """
    pair, rows = (
        ((given.x, given.y), given.rows) if isinstance(given, ClientData) else (given, None)
    )
    try:
        x, y = (_tensor(part) for part in pair)
        rows = None if rows is None else _tensor(rows)
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadData(f"{owner} must be a pair (inputs, labels) of arrays: {error}") from None
    if x.dim() == 0 or y.dim() == 0:
        raise BadData(f"{owner} must be a pair (inputs, labels) of arrays, got a single number")
    x = x.to(floating) if x.is_floating_point() else x
    return ClientData(x, y if y.is_floating_point() else y.long(), rows)


def _tensor(values: Any) -> Tensor:
    if isinstance(values, np.ndarray) and not values.flags.writeable:
        values = values.copy()  # torch has no tensors that are only read, and warns of sharing
    return torch.as_tensor(values)


def check_alike(owner: str, inputs: Tensor, first_owner: str, first: Tensor) -> None:
    """Refuse inputs of another sample shape or type than the ``first``, naming their owner."""
    if inputs.shape[1:] != first.shape[1:] or inputs.dtype != first.dtype:
        raise BadData(
            f"{owner} has inputs of {_kind(inputs)}, but {first_owner} of {_kind(first)}; "
            "all need the same"
        )


def _kind(inputs: Tensor) -> str:
    return f"shape {list(inputs.shape[1:])} and type {str(inputs.dtype).removeprefix('torch.')}"
