"""Samples drawn by the length of their gradients, weighted without bias, where that pays."""

from dataclasses import replace

import numpy as np
import torch

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import squared_norms
from fedcore.coreset.selectors import uniform_plain
from fedcore.coreset.weights import finish
from fedcore.types import Coreset, Generator


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """b draws by p_j = ||g_j|| / Σ ||g||, with replacement, each of weight 1 / (b p_j).

    Only where √(n Σ p²), which is 1 for equal lengths, is above (n + 3 b) / (3 b); else the draw is
    uniform (Katharopoulos and Fleuret 2018). To rescale the weights to n would be biased.
    """
    lengths = squared_norms(candidates.space).sqrt()
    size, device = len(lengths), lengths.device
    chances = (lengths / lengths.sum().clamp(min=torch.finfo(torch.float64).tiny)).cpu().numpy()
    if np.sqrt(size * np.square(chances).sum()) <= (size + 3 * budget) / (3 * budget):
        return uniform_plain.select(candidates, budget, generator)
    indices, times = np.unique(generator.choice(size, size=budget, p=chances), return_counts=True)
    weights = torch.from_numpy(times / (budget * chances[indices])).to(device)
    found = finish(candidates.space, torch.from_numpy(indices).to(device), weights)
    return replace(found, sums_in_the_mean=True)
