"""Multinomial logistic regression: one linear layer, cross-entropy on its scores."""

import torch
from torch import Tensor, nn

from fedcore.stacked import Passed, Stack, Zeros, affine


class LinearClassifier(nn.Module):
    """Scores x W' + b, through a sigmoid first if ``sigmoid`` is set."""

    def __init__(self, features: int, classes: int, *, sigmoid: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(features, classes)
        self.sigmoid = sigmoid

    def forward(self, x: Tensor) -> Tensor:
        """Class scores [batch, classes]."""
        scores: Tensor = self.linear(x.flatten(1))
        return torch.sigmoid(scores) if self.sigmoid else scores

    def stacked_form(self, params: Stack, x: Tensor, probe: Zeros) -> Passed:
        """The classifiers of many clients as one batched matrix product."""
        inputs = x.flatten(2)
        scores = affine(inputs, params["linear.weight"], params["linear.bias"])
        scores = scores if probe is None else scores + probe
        return torch.sigmoid(scores) if self.sigmoid else scores, inputs


def build(example: Tensor, num_classes: int) -> nn.Module:
    """A classifier for inputs shaped like ``example``."""
    return LinearClassifier(example.numel(), num_classes)
