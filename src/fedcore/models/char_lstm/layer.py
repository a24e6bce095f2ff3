"""One LSTM layer of many clients, with the backward pass written out.

Per time step and direction there is one batched matrix product and one pointwise kernel; all
that does not wait for the recurrence (the input's part of the gates, and every weight gradient)
is one large product before or after the loop:

    a_t = x_t W_ihᵀ + h_{t-1} W_hhᵀ + b        dh_{t-1} += da_t W_hh
    dW_ih = Σ_t da_tᵀ x_t      dW_hh = Σ_t da_tᵀ h_{t-1}      db = Σ_t da_t
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from fedcore.models.char_lstm.cell import cell_backward, cell_forward


class _Layer(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, input_weight: Tensor, hidden_weight: Tensor, bias: Tensor
    ) -> Tensor:
        clients, length, batch, _ = x.shape
        units, rows = hidden_weight.shape[2], clients * batch
        gates = torch.baddbmm(bias[:, None], x.flatten(1, 2), input_weight.transpose(1, 2))
        # [K, T·B, 4H] -> [T, K·B, 4H], so that a step reads one run of memory
        gates = gates.view(clients, length, batch, -1).transpose(0, 1).reshape(length, rows, -1)
        transposed = hidden_weight.transpose(1, 2)
        states = [x.new_zeros(rows, units)]
        cells = [x.new_zeros(rows, units)]
        activated = []
        for t in range(length):
            recurrent = torch.bmm(states[-1].view(clients, batch, units), transposed)
            h, c, a = cell_forward(gates[t], recurrent.view(rows, -1), cells[-1])
            states.append(h)
            cells.append(c)
            activated.append(a)
        # [T + 1, K·B, H] -> [K, T + 1, B, H]
        history = torch.stack(states).view(length + 1, clients, batch, units).transpose(0, 1)
        history = history.contiguous()
        ctx.save_for_backward(x, input_weight, hidden_weight, history, *cells, *activated)
        return history[:, 1:]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, input_weight, hidden_weight, history, *rest = ctx.saved_tensors
        clients, length, batch, width = x.shape
        units, rows = hidden_weight.shape[2], clients * batch
        cells, activated = rest[: length + 1], rest[length + 1 :]
        # A copy of our own, [T, K, B, H], to which the recurrence adds
        upstream = gradients[0].transpose(0, 1).clone(memory_format=torch.contiguous_format)
        dc = torch.zeros_like(cells[0])
        slopes: list[Tensor] = []
        for t in range(length - 1, -1, -1):
            dh = upstream[t].view(rows, units)
            da, dc = cell_backward(dh, dc, cells[t], cells[t + 1], activated[t])
            slopes.append(da)
            if t > 0:
                upstream[t - 1].baddbmm_(da.view(clients, batch, -1), hidden_weight)
        # [T, K·B, 4H] -> [K, T·B, 4H]
        da = (
            torch.stack(slopes[::-1]).view(length, clients, batch, -1).transpose(0, 1).flatten(1, 2)
        )
        turned = da.transpose(1, 2)
        return (
            torch.bmm(da, input_weight).view(clients, length, batch, width),
            torch.bmm(turned, x.flatten(1, 2)),
            torch.bmm(turned, history[:, :-1].flatten(1, 2)),
            da.sum(1),
        )


def lstm_layer(x: Tensor, input_weight: Tensor, hidden_weight: Tensor, bias: Tensor) -> Tensor:
    """States [K, T, B, H] of sequences [K, T, B, I], starting from zeros.

    Args:
        x: one set of sequences per client.
        input_weight: [K, 4H, I], gates in PyTorch's order.
        hidden_weight: [K, 4H, H].
        bias: [K, 4H].
    """
    states: Tensor = _Layer.apply(  # type: ignore[no-untyped-call]
        x, input_weight, hidden_weight, bias
    )
    return states


def plain_lstm(
    x: Tensor,
    input_weights: Sequence[Tensor],
    hidden_weights: Sequence[Tensor],
    biases: Sequence[Tensor],
) -> Tensor:
    """Last states [K, B, H] of a stack of layers: the plain twin of ``fused_lstm``."""
    states = x
    for weights in zip(input_weights, hidden_weights, biases, strict=True):
        states = lstm_layer(states, *weights)
    return states[:, -1]
