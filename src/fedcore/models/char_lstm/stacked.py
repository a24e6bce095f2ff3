"""The character LSTM of many clients from batched products, with the backward pass written out.

With gates a = (i, f, g, o) in PyTorch's order, after their sigmoid or tanh, and cell state c:

    a_t = x_t W_ihᵀ + h_{t-1} W_hhᵀ + b        c' = f c + i g        h' = o tanh(c')
    dc' += dh' o (1 - tanh(c')²)               dc = dc' f            dh_{t-1} += da_t W_hh
    di = dc' g i (1 - i)       df = dc' c f (1 - f)       dg = dc' i (1 - g²)
    do = dh' tanh(c') o (1 - o)
    dW_ih = Σ_t da_tᵀ x_t      dW_hh = Σ_t da_tᵀ h_{t-1}      db = Σ_t da_t

Per time step and direction there is one batched matrix product and one pointwise kernel; all
that does not wait for the recurrence is one large product before or after the loop. Where they
can run, the kernels of ``fused`` do the same in fewer launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from fedcore.models.char_lstm import LAYERS
from fedcore.models.char_lstm.fused import fits, fused_lstm
from fedcore.stacked import Stack, affine


def stacked_lstm(params: Stack, x: Tensor, probe: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The form of ``CharacterLstm`` for windows [K, B, length]."""
    sequences = _embed(params["embedding.weight"], x.transpose(1, 2))
    layers = range(LAYERS)
    to_input = [params[f"lstm.weight_ih_l{layer}"] for layer in layers]
    to_hidden = [params[f"lstm.weight_hh_l{layer}"] for layer in layers]
    # PyTorch's LSTM has two biases where one would do; both get the same gradient.
    biases = [
        params[f"lstm.bias_ih_l{layer}"] + params[f"lstm.bias_hh_l{layer}"] for layer in layers
    ]
    stack = fused_lstm if fits(sequences, to_hidden[0].shape[2]) else plain_lstm
    last = stack(sequences, to_input, to_hidden, biases)  # [K, B, H]
    scores = affine(last, params["head.weight"], params["head.bias"])
    return scores if probe is None else scores + probe, last


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


def lstm_layer(x: Tensor, input_weight: Tensor, hidden_weight: Tensor, bias: Tensor) -> Tensor:
    """States [K, T, B, H] of sequences [K, T, B, I], starting from zeros.

    Args:
        x: one set of sequences per client.
        input_weight: [K, 4H, I].
        hidden_weight: [K, 4H, H].
        bias: [K, 4H].
    """
    states: Tensor = _Layer.apply(  # type: ignore[no-untyped-call]
        x, input_weight, hidden_weight, bias
    )
    return states


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


def cell_forward(input_gates: Tensor, hidden_gates: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """h', c' [n, H] and the gates after their functions [n, 4H], from gates [n, 4H] before.

    On a GPU this is one launch of a kernel that PyTorch has for its own cells.
    """
    if input_gates.is_cuda:
        fused = torch.ops.aten._thnn_fused_lstm_cell
        h, after, activated = fused(input_gates, hidden_gates, c, None, None)
        return h, after, activated
    activated = input_gates + hidden_gates
    i, f, g, o = activated.chunk(4, dim=1)
    i.sigmoid_(), f.sigmoid_(), g.tanh_(), o.sigmoid_()
    after = torch.addcmul(f * c, i, g)
    return o * after.tanh(), after, activated


def cell_backward(
    dh: Tensor, dc: Tensor, before: Tensor, after: Tensor, activated: Tensor
) -> tuple[Tensor, Tensor]:
    """d gates [n, 4H] and dc [n, H] of the state before, from those of the step's results."""
    if dh.is_cuda:
        fused = torch.ops.aten._thnn_fused_lstm_cell_backward_impl
        gates, earlier, _ = fused(dh, dc, before, after, activated, False)
        return gates, earlier
    i, f, g, o = activated.chunk(4, dim=1)
    squashed = after.tanh()
    dc = torch.addcmul(dc, dh * o, 1 - squashed * squashed)
    parts = (
        dc * g * i * (1 - i),
        dc * before * f * (1 - f),
        dc * i * (1 - g * g),
        dh * squashed * o * (1 - o),
    )
    return torch.cat(parts, dim=1), dc * f


def _embed(table: Tensor, symbols: Tensor) -> Tensor:
    """Rows [K, T, B, E] of tables [K, S, E], as a product with indicators.

    A gather would need a scattered sum on the way back, which sorts, waits for the device and
    cannot be captured; 90 symbols in 8 dimensions cost nothing as a product.
    """
    clients, length, batch = symbols.shape
    every = torch.arange(table.shape[1], device=table.device)
    flat = symbols.reshape(clients, -1, 1)
    chosen = (flat == every).to(table.dtype)  # [K, T·B, S]
    return torch.bmm(chosen, table).view(clients, length, batch, -1)
