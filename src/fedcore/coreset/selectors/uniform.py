"""A random subset; every other sample counts for its nearest one."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedcore.coreset.weights import nearest_counts
from fedcore.types import Coreset, Generator


def select(points: Tensor, budget: int, *, labels: Tensor, generator: Generator) -> Coreset:
    """S uniform without replacement, δ_k = number of points whose nearest element of S is k."""
    chosen = np.sort(generator.choice(points.shape[0], size=budget, replace=False))
    return nearest_counts(points, torch.from_numpy(chosen))
