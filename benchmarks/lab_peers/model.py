"""Logistic regression, 60 features and 10 classes, in a file that appfl can load by its path."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn


class Logistic(nn.Module):
    """Scores [batch, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(60, 10)

    def forward(self, x: Tensor) -> Tensor:
        """W x + b."""
        scores: Tensor = self.linear(x)
        return scores


def accuracy(labels: NDArray[np.int64], scores: NDArray[np.float32]) -> float:
    """Share of right answers."""
    return float((scores.argmax(axis=1) == labels).mean())
