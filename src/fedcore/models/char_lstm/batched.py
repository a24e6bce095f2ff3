"""The character LSTM of many clients, from batched matrix products: nn.LSTM has no vmap rule."""

from __future__ import annotations

import torch
from torch import Tensor

from fedcore.models.char_lstm import LAYERS
from fedcore.models.char_lstm.fused import fits, fused_lstm
from fedcore.models.char_lstm.layer import plain_lstm
from fedcore.stacked import Stack, affine


def batched_lstm(params: Stack, x: Tensor, probe: Tensor | None) -> tuple[Tensor, Tensor | None]:
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
