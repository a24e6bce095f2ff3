"""Multinomial logistic regression: one linear layer, cross-entropy on its scores."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LinearClassifier(nn.Module):
    """Scores x W' + b, through a sigmoid first if ``sigmoid`` is set."""

    def __init__(self, features: int, classes: int, *, sigmoid: bool = False) -> None:
        """Create the one linear layer."""
        super().__init__()
        self.linear = nn.Linear(features, classes)
        self.sigmoid = sigmoid

    def forward(self, x: Tensor) -> Tensor:
        """Class scores [batch, classes]."""
        scores: Tensor = self.linear(x.flatten(1))
        return torch.sigmoid(scores) if self.sigmoid else scores


def build(example: Tensor, num_classes: int) -> nn.Module:
    """A classifier for inputs shaped like ``example``."""
    return LinearClassifier(example.numel(), num_classes)
