"""k-medoids inside each class, with the budget shared out by class size: the authors' choice."""

import numpy as np
import torch
from numpy.typing import NDArray

from fedcore.coreset.candidates import Candidates, Select
from fedcore.coreset.selectors import kmedoids
from fedcore.coreset.weights import everything, finish, nearest_counts
from fedcore.types import Coreset, Generator

NEEDS_LABELS = True  # `select_coreset` refuses to do without


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """Eq. 5 for every class alone; shares by largest remainder (docs/deviations.md)."""
    return select_per_class(kmedoids.select, candidates, budget, generator)


def split_budget(budget: int, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Share ``budget`` out in proportion to ``sizes``: Σ shares = budget, shares <= sizes.

    Every non-empty class gets one where the budget allows it (the largest classes first where
    it does not); the rest follows the largest remainders, ties to the lower class.

    >>> split_budget(5, np.array([60, 30, 10])).tolist()
    [3, 1, 1]
    """
    budget = min(budget, int(sizes.sum()))
    shares: NDArray[np.int64] = np.zeros_like(sizes)
    if budget < np.count_nonzero(sizes):
        shares[np.argsort(-sizes, kind="stable")[:budget]] = 1
        return shares
    exact = budget * sizes / sizes.sum()
    shares = np.maximum(np.floor(exact).astype(np.int64), (sizes > 0).astype(np.int64))
    while shares.sum() < budget:
        shares[np.argmax(np.where(shares < sizes, exact - shares, -np.inf))] += 1
    while shares.sum() > budget:  # the guaranteed ones took more than their share
        shares[np.argmax(np.where(shares > 1, shares - exact, -np.inf))] -= 1
    return shares


def select_per_class(
    select: Select, candidates: Candidates, budget: int, generator: Generator
) -> Coreset:
    """Run ``select`` in every class; samples of a class without a share join their nearest."""
    classes, members = torch.unique(candidates.classes(), return_inverse=True)
    groups = [torch.nonzero(members == number).flatten() for number in range(len(classes))]
    shares = split_budget(budget, np.array([len(own) for own in groups]))
    owner, indices, weights, objective = torch.full_like(members, -1), [], [], 0.0
    for own, share in zip(groups, shares.tolist(), strict=True):
        if share == 0:
            continue
        part = everything(share, own.device)
        if share < len(own):
            part = select(candidates.take(own), share, generator)
        indices.append(own[part.indices])
        weights.append(part.weights)
        objective += part.objective or 0.0
        if part.assignment is not None:
            owner[own] = own[part.indices[part.assignment]]
    chosen, order = torch.sort(torch.cat(indices))
    if len(indices) < len(groups):
        return nearest_counts(candidates.space, chosen)
    known = bool((owner >= 0).all())  # who stands for everybody, which not all methods say
    served = (objective, torch.searchsorted(chosen, owner)) if known else ()
    return finish(candidates.space, chosen, torch.cat(weights)[order], *served)
