"""Parameters of many clients stacked along a leading axis K, and one linear layer of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Stack = Mapping[str, Tensor]

# A forward pass over clients. It takes parameters [K, ...], inputs [K, B, ...] and, where the
# last layer is watched, zeros [K, B, C] that are added to its output: their gradient is dL/da.
# It gives scores [K, B, C] and what entered the last layer, z [K, B, d].
Form = Callable[[Stack, Tensor, Tensor | None], tuple[Tensor, Tensor | None]]


def affine(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """a_k = z_k W_kᵀ + b_k: [K, n, C] of inputs [K, n, d], weights [K, C, d], biases [K, C].

    Written with the weight as the left factor: its gradient then comes out in the weight's own
    memory order, and the update of large layers does not walk across it.
    """
    return torch.baddbmm(bias[:, :, None], weight, inputs.transpose(1, 2)).transpose(1, 2)
