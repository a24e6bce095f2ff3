"""The character LSTM of McMahan et al. 2017: 2 layers of 256 units, 822,570 parameters.

Of 90 symbols: an embedding in 8 dimensions (720), LSTM layers of 4 * 256 * (8 + 256 + 2) = 272,384
and 4 * 256 * (256 + 256 + 2) = 526,336 parameters, scores from the last step (23,130). PyTorch's
LSTM, which the authors use, has two biases a gate where the equations, and the TensorFlow models of
McMahan et al. and FedProx, have one (820,522); the function is the same.
"""

import torch
from torch import Tensor, nn

from fedcore.errors import BadOption
from fedcore.models.char_lstm.fused import LAYERS, UNITS, Layers, fits, fused_lstm
from fedcore.stacked import Passed, Stack, Zeros, affine

EMBEDDING = 8


class CharacterLstm(nn.Module):
    """Reads a window of symbols and scores what comes next."""

    def __init__(self, symbols: int, classes: int = 0) -> None:
        """Create the layers for ``symbols`` symbols, which are the classes unless those differ."""
        super().__init__()
        self.embedding = nn.Embedding(symbols, EMBEDDING)
        self.lstm = nn.LSTM(EMBEDDING, UNITS, LAYERS, batch_first=True)
        self.head = nn.Linear(UNITS, classes or symbols)

    def forward(self, x: Tensor) -> Tensor:
        """Scores [batch, symbols] of the symbol after each window ``x`` [batch, length]."""
        states, _ = self.lstm(self.embedding(x.long()))  # [batch, length, units]
        scores: Tensor = self.head(states[:, -1])
        return scores

    def stacked_form(self, params: Stack, x: Tensor, probe: Zeros) -> Passed:
        """Many clients' windows [K, B, length]: nn.LSTM has no rule for ``vmap``."""
        sequences = _embed(params["embedding.weight"], x.transpose(1, 2))
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        named = ([params[f"lstm.{kind}_l{layer}"] for layer in range(LAYERS)] for kind in kinds)
        to_input, to_hidden, *two = named
        # PyTorch's LSTM has two biases where one would do; both get the same gradient.
        biases = [one + other for one, other in zip(*two, strict=True)]
        stack = fused_lstm if fits(sequences, to_hidden[0].shape[2]) else plain_lstm
        last = stack(sequences, to_input, to_hidden, biases)  # [K, B, H]
        scores = affine(last, params["head.weight"], params["head.bias"])
        return scores if probe is None else scores + probe, last


def build(example: Tensor, num_classes: int) -> nn.Module:
    """A model for windows like ``example`` [length] of symbols."""
    whole = example.dtype in (torch.uint8, torch.int16, torch.int32, torch.int64)
    if example.dim() != 1 or not whole:
        raise BadOption(
            "model 'char-lstm' needs windows [length] of whole numbers, got inputs of shape "
            f"{list(example.shape)} and type {example.dtype}; use another model"
        )
    texts = 90 if example.dtype == torch.uint8 else 0  # symbols that they have, of few classes too
    return CharacterLstm(max(num_classes, texts), num_classes)


def plain_lstm(x: Tensor, input_weights: Layers, hidden_weights: Layers, biases: Layers) -> Tensor:
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

    A gather would need a scattered sum on the way back, which cannot be captured.
    """
    clients, length, batch = symbols.shape
    every = torch.arange(table.shape[1], device=table.device)
    chosen = (symbols.reshape(clients, -1, 1) == every).to(table.dtype)  # [K, T·B, S]
    return torch.bmm(chosen, table).view(clients, length, batch, -1)
