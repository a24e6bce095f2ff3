"""What all clients' samples have in common: no model takes inputs of two shapes or types."""

from __future__ import annotations

from torch import Tensor

from fedcore.errors import BadData


def check_alike(owner: str, inputs: Tensor, first_owner: str, first: Tensor) -> None:
    """Refuse inputs of another sample shape or type than the ``first``, naming their owner."""
    if inputs.shape[1:] != first.shape[1:] or inputs.dtype != first.dtype:
        raise BadData(
            f"{owner} has inputs of {_kind(inputs)}, but {first_owner} of {_kind(first)}; "
            "all need the same"
        )


def _kind(inputs: Tensor) -> str:
    return f"shape {list(inputs.shape[1:])} and type {str(inputs.dtype).removeprefix('torch.')}"
