"""Select inside each class, with a budget that is split over the classes exactly."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.coreset.weights import nearest_counts
from fedcore.types import Coreset, Generator, Select


def split_budget(budget: int, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Share ``budget`` out in proportion to ``sizes``: Σ shares = budget, shares <= sizes.

    Every non-empty class gets one where the budget allows it (the largest classes first where
    it does not); the rest follows the largest remainders, ties to the lower class.

    >>> split_budget(5, np.array([60, 30, 10])).tolist()
    [3, 1, 1]
    """
    budget = min(budget, int(sizes.sum()))
    shares: NDArray[np.int64] = np.zeros_like(sizes)
    present = np.flatnonzero(sizes)
    if budget < len(present):
        largest = present[np.argsort(-sizes[present], kind="stable")]
        shares[largest[:budget]] = 1
        return shares
    exact = budget * sizes / sizes.sum()
    shares = np.maximum(np.floor(exact).astype(np.int64), (sizes > 0).astype(np.int64))
    while shares.sum() < budget:
        short = np.where(shares < sizes, exact - shares, -np.inf)
        shares[int(np.argmax(short))] += 1
    while shares.sum() > budget:  # the guaranteed ones took more than their share
        over = np.where(shares > 1, shares - exact, -np.inf)
        shares[int(np.argmax(over))] -= 1
    return shares


def select_per_class(
    select: Select, points: Tensor, budget: int, *, labels: Tensor, generator: Generator
) -> Coreset:
    """Run ``select`` in every class; samples of a class without a share join their nearest."""
    classes, members = torch.unique(labels, return_inverse=True)
    sizes = torch.bincount(members, minlength=len(classes)).cpu().numpy()
    shares = split_budget(budget, sizes)
    indices, weights, objective = [], [], 0.0
    for number, share in enumerate(shares.tolist()):
        if share == 0:
            continue
        own = torch.nonzero(members == number).flatten()
        if share == len(own):
            part = Coreset(torch.arange(share), torch.ones(share, dtype=torch.float64), 0.0)
        else:
            part = select(points[own], share, labels=labels[own], generator=generator)
        indices.append(own[part.indices])
        weights.append(part.weights)
        objective += part.objective or 0.0
    chosen, order = torch.sort(torch.cat(indices))
    if (shares[sizes > 0] == 0).any():
        return nearest_counts(points, chosen)
    return Coreset(chosen, torch.cat(weights)[order], objective)
