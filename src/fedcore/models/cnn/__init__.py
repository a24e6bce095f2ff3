"""The CNN of McMahan et al. 2017 for MNIST: two 5x5 convolutions, 512 units, 1,663,370 parameters.

==============================  =======================  =========
layer                           parameters for MNIST
==============================  =======================  =========
5x5 convolution, 1 to 32 maps   25 * 1 * 32 + 32               832
2x2 max-pool                    (28x28 to 14x14)
5x5 convolution, 32 to 64 maps  25 * 32 * 64 + 64           51,264
2x2 max-pool                    (14x14 to 7x7)
512 units, ReLU                 7 * 7 * 64 * 512 + 512   1,606,144
10 scores                       512 * 10 + 10                5,130
==============================  =======================  =========

Convolutions keep the size of their input ("same" padding): only so the sum is the published one.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedcore.errors import BadOption
from fedcore.stacked import Form

MAPS = (32, 64)
UNITS = 512


class ImageClassifier(nn.Module):
    """Two convolutions with max-pools, one hidden layer, a linear head."""

    def __init__(self, channels: int, height: int, width: int, classes: int) -> None:
        """Create the layers for images of one size."""
        super().__init__()
        self.first = nn.Conv2d(channels, MAPS[0], 5, padding=2)
        self.second = nn.Conv2d(MAPS[0], MAPS[1], 5, padding=2)
        self.hidden = nn.Linear(MAPS[1] * (height // 4) * (width // 4), UNITS)
        self.head = nn.Linear(UNITS, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores [batch, classes] of images [batch, channels, height, width]."""
        x = functional.max_pool2d(torch.relu(self.first(x)), 2)
        x = functional.max_pool2d(torch.relu(self.second(x)), 2)
        scores: Tensor = self.head(torch.relu(self.hidden(x.flatten(1))))
        return scores

    def stacked_form(self) -> Form:
        """Many clients: convolutions as matrix products."""
        from fedcore.models.cnn.stacked import stacked_cnn

        return stacked_cnn

    def single_form(self) -> Form:
        """One client on a CPU: channels last."""
        from fedcore.models.cnn.stacked import single_cnn

        return single_cnn


def build(example: Tensor, num_classes: int) -> nn.Module:
    """A classifier for images shaped like ``example`` [channels, height, width]."""
    if example.dim() != 3 or min(example.shape[1:]) < 4 or not example.is_floating_point():
        raise BadOption(
            "model 'cnn' needs images [channels, height, width] of at least 4x4 numbers, got "
            f"inputs of shape {list(example.shape)} and type {example.dtype}; use another model"
        )
    channels, height, width = example.shape
    return ImageClassifier(channels, height, width, num_classes)
