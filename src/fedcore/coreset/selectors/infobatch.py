"""InfoBatch's rule for a budget: all hard samples, and of the others a draw that weighs more."""

import numpy as np
import torch

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.weights import finish
from fedcore.errors import BadOption
from fedcore.types import Coreset, Generator

NEEDS_LOSSES = True  # so a pass of the model over the samples must come first


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """All h samples with L_j > t, each of weight 1; b - h of the others, of (n - h) / (b - h).

    t is the mean loss, or the (1 - b / 2n) quantile where more than b / 2 lie above the mean, so
    that half of the budget is left to draw from. Σ δ_k g_k is unbiased over the draw. Qin et al.,
    InfoBatch, ICLR 2024, keep each of the others by chance; so many of them fit the budget.
    """
    if candidates.losses is None:
        raise BadOption("selector 'infobatch' needs losses; pass losses=, or use 'uniform-plain'")
    losses, size = candidates.losses.double().cpu().numpy(), len(candidates)
    above = losses > losses.mean()
    if 2 * above.sum() > budget:
        above = losses > np.quantile(losses, 1 - budget / (2 * size), method="inverted_cdf")
    hard, easy = np.flatnonzero(above), np.flatnonzero(~above)
    drawn = generator.choice(easy, budget - len(hard), replace=False)
    chosen = np.sort(np.append(hard, drawn))
    weights = torch.from_numpy(np.where(above[chosen], 1.0, len(easy) / len(drawn)))
    device = candidates.space.factors[0].device
    return finish(candidates.space, torch.from_numpy(chosen).to(device), weights.to(device))
