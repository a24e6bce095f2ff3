"""Logistic regression as the authors' code has it: a sigmoid before the cross-entropy."""

from torch import Tensor, nn

from fedcore.models.logistic import LinearClassifier


def build(example: Tensor, num_classes: int) -> nn.Module:
    """A classifier for inputs shaped like ``example``; its scores lie between 0 and 1."""
    return LinearClassifier(example.numel(), num_classes, sigmoid=True)
