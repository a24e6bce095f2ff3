"""The character LSTM of many clients from batched products: nn.LSTM has no rule for ``vmap``.

Where they can run, the kernels of ``fused`` take the place of the loop over time.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

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
    """Last states [K, B, H] of a stack of layers, from zeros: the plain twin of ``fused_lstm``.

    With gates i, f, g, o of x W_ihᵀ + h W_hhᵀ + b in PyTorch's order, after their sigmoid or tanh,
    and cell state c: c' = f c + i g, h' = o tanh(c').
    """
    clients, length, batch, _ = x.shape
    for to_input, to_hidden, bias in zip(input_weights, hidden_weights, biases, strict=True):
        waiting = torch.baddbmm(bias[:, None], x.flatten(1, 2), to_input.transpose(1, 2))
        h = c = x.new_zeros(clients, batch, to_hidden.shape[2])
        states = []
        for gates in waiting.view(clients, length, batch, -1).unbind(1):
            i, f, g, o = torch.baddbmm(gates, h, to_hidden.transpose(1, 2)).chunk(4, dim=2)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            states.append(h)
        x = torch.stack(states, dim=1)
    return x[:, -1]


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
