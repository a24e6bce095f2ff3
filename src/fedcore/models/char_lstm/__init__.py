"""The character LSTM of McMahan et al. 2017: 2 layers of 256 units, 822,570 parameters.

================================  ==================================  ========
layer                             parameters for 90 symbols
================================  ==================================  ========
embedding in 8 dimensions         90 * 8                                   720
first LSTM layer, 256 units       4 * 256 * (8 + 256 + 2)              272,384
second LSTM layer, 256 units      4 * 256 * (256 + 256 + 2)            526,336
scores from the last step         256 * 90 + 90                         23,130
================================  ==================================  ========

PyTorch's LSTM adds two biases to every gate where the equations have one. With one, as in the
TensorFlow models of McMahan et al. and FedProx, the sum is 820,522; the function is the same. The
authors of the paper use PyTorch's, and so does this file: on a GPU it runs in one fused kernel.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedcore.errors import BadOption
from fedcore.stacked import Form

EMBEDDING = 8
UNITS = 256
LAYERS = 2


class CharacterLstm(nn.Module):
    """Reads a window of symbols and scores what comes next."""

    def __init__(self, symbols: int) -> None:
        """Create the layers for ``symbols`` symbols, which are inputs and classes alike."""
        super().__init__()
        self.embedding = nn.Embedding(symbols, EMBEDDING)
        self.lstm = nn.LSTM(EMBEDDING, UNITS, LAYERS, batch_first=True)
        self.head = nn.Linear(UNITS, symbols)

    def forward(self, x: Tensor) -> Tensor:
        """Scores [batch, symbols] of the symbol after each window ``x`` [batch, length]."""
        states, _ = self.lstm(self.embedding(x.long()))  # [batch, length, units]
        scores: Tensor = self.head(states[:, -1])
        return scores

    def stacked_form(self) -> Form:
        """Many clients: nn.LSTM has no rule for ``vmap``."""
        from fedcore.models.char_lstm.stacked import stacked_lstm

        return stacked_lstm


def build(example: Tensor, num_classes: int) -> nn.Module:
    """A model for windows like ``example`` [length] over ``num_classes`` symbols."""
    whole = example.dtype in (torch.uint8, torch.int16, torch.int32, torch.int64)
    if example.dim() != 1 or not whole:
        raise BadOption(
            "model 'char-lstm' needs windows [length] of whole numbers, got inputs of shape "
            f"{list(example.shape)} and type {example.dtype}; use another model"
        )
    return CharacterLstm(num_classes)
