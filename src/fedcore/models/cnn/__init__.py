"""The CNN of McMahan et al. 2017 for MNIST: two 5x5 convolutions, 512 units, 1,663,370 parameters.

A convolution to 32 maps (832 parameters), a 2x2 max-pool, another to 64 maps (51,264), a max-pool,
512 units with ReLU (1,606,144) and 10 scores (5,130). Convolutions keep the size of their input
("same" padding): only so the sum is the published one.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedcore.errors import BadOption
from fedcore.models.cnn.convolution import convolve
from fedcore.stacked import Passed, Stack, Zeros, affine

MAPS = (32, 64)
UNITS = 512


class ImageClassifier(nn.Module):
    """Two convolutions with max-pools, one hidden layer, a linear head."""

    def __init__(self, channels: int, height: int, width: int, classes: int) -> None:
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

    def stacked_form(self, params: Stack, x: Tensor, probe: Zeros) -> Passed:
        """Many clients' images [K, B, C, H, W]: convolutions as matrix products."""
        images = x.permute(0, 1, 3, 4, 2).contiguous()
        images = _pool(convolve(images, params["first.weight"], params["first.bias"]))
        images = _pool(convolve(images, params["second.weight"], params["second.bias"]))
        flat = images.permute(0, 1, 4, 2, 3).flatten(2)
        hidden = torch.relu(affine(flat, params["hidden.weight"], params["hidden.bias"]))
        scores = affine(hidden, params["head.weight"], params["head.bias"])
        return scores if probe is None else scores + probe, hidden

    def single_form(self, params: Stack, x: Tensor, probe: Zeros) -> Passed:
        """One client on a CPU: the library's convolutions, pools with channels last."""
        own = {name: value.squeeze(0) for name, value in params.items()}
        images = functional.conv2d(x[0], own["first.weight"], own["first.bias"], padding=2)
        images = images.contiguous(memory_format=torch.channels_last)
        images = torch.relu(functional.max_pool2d(images, 2))
        kernel = own["second.weight"].contiguous(memory_format=torch.channels_last)
        images = functional.conv2d(images, kernel, own["second.bias"], padding=2)
        flat = torch.relu(functional.max_pool2d(images, 2)).flatten(1)
        hidden = torch.relu(functional.linear(flat, own["hidden.weight"], own["hidden.bias"]))
        scores = functional.linear(hidden, own["head.weight"], own["head.bias"])[None]
        return scores if probe is None else scores + probe, hidden[None]


def build(example: Tensor, num_classes: int) -> nn.Module:
    """A classifier for images shaped like ``example`` [channels, height, width]."""
    if example.dim() != 3 or min(example.shape[1:]) < 4 or not example.is_floating_point():
        raise BadOption(
            "model 'cnn' needs images [channels, height, width] of at least 4x4 numbers, got "
            f"inputs of shape {list(example.shape)} and type {example.dtype}; use another model"
        )
    channels, height, width = example.shape
    return ImageClassifier(channels, height, width, num_classes)


def _pool(images: Tensor) -> Tensor:
    """2x2 max-pool, then ReLU: the two commute, and this way round ReLU has a quarter to do."""
    clients, batch, height, width, maps = images.shape
    channels_last = images.view(clients * batch, height, width, maps).permute(0, 3, 1, 2)
    pooled = torch.relu(functional.max_pool2d(channels_last, 2)).permute(0, 2, 3, 1)
    return pooled.reshape(clients, batch, *pooled.shape[1:]).contiguous()
