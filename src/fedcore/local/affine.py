"""One linear layer per client: a_k = z_k W_kᵀ + b_k for stacked weights."""

from __future__ import annotations

import torch
from torch import Tensor


def affine(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Outputs [K, n, C] of inputs [K, n, d], weights [K, C, d] and biases [K, C].

    Written with the weight as the left factor: its gradient then comes out in the weight's own
    memory order, and the update of large layers does not walk across it.
    """
    return torch.baddbmm(bias[:, :, None], weight, inputs.transpose(1, 2)).transpose(1, 2)
