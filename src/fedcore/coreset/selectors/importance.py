"""Samples drawn by the length of their gradients, weighted without bias, where that pays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from fedcore.coreset.candidates import Candidates, Select
from fedcore.coreset.metric import squared_norms
from fedcore.coreset.selectors import uniform_plain
from fedcore.coreset.weights import finish
from fedcore.types import Coreset, Generator


def build(*, gate: float = 0.0) -> Select:
    """p_j = ||g_j|| / Σ ||g||; b draws with replacement, each of weight 1 / (b p_j).

    Only where τ = √(n Σ p²), which is 1 for equal lengths, is above the gate, (n + 3 b) / (3 b)
    unless it is given; else the draw is uniform (Katharopoulos and Fleuret 2018). The weights sum
    to n in the mean over draws alone: to rescale them would be biased.
    """

    def draw(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
        lengths = squared_norms(candidates.space).sqrt()
        size, total = len(lengths), float(lengths.sum())
        chances = (lengths / total if total > 0 else lengths).cpu().numpy()
        needed = gate or (size + 3 * budget) / (3 * budget)
        if not np.sqrt(size * np.square(chances).sum()) > needed:
            return uniform_plain.select(candidates, budget, generator)
        drawn = generator.choice(size, size=budget, p=chances)
        indices, times = np.unique(drawn, return_counts=True)
        device = lengths.device
        weights = torch.from_numpy(times / (budget * chances[indices])).to(device)
        found = finish(candidates.space, torch.from_numpy(indices).to(device), weights)
        return replace(found, sums_in_the_mean=True)

    return draw


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """With the gate that the paper derives."""
    return build()(candidates, budget, generator)
