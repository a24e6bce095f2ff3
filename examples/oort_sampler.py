"""An Oort-like sampler: clients that learn much per second are drawn more often.

    fedcore compare --selection examples/oort_sampler.py --method explore=0.3 --out runs/oort

After Lai et al. 2021: the utility of a client is |B_i| √(mean L²), times (T / t_i)^α if its last
job took t_i > T seconds; T is the median of those seen. A share of every cohort is drawn from
clients that have never answered.
"""

import math

import numpy as np
import torch

from fedcore.server.method import Cohort, Draw, Sampler
from fedcore.sources.clients import ClientSizes
from fedcore.types import LocalUpdate, Params


def build(*, explore: float = 0.2, penalty: float = 2.0) -> Sampler:
    """Remembers utility and seconds of everybody's last answer; α is ``penalty``."""

    def observe(memory: Params, update: LocalUpdate, sizes: ClientSizes) -> Params:
        blank = torch.full((len(sizes), 2), math.nan, dtype=torch.float64)
        seen = memory.get("seen", blank).clone()
        count = max(1, update.loss_count)
        utility = update.num_samples * math.sqrt(update.loss_square_sum / count)
        seen[sizes.place(update.client_id)] = torch.tensor([utility, update.seconds or 0.0])
        return {"seen": seen}

    def draw(asked: Draw) -> Cohort:
        draws, idle = asked.generator(), asked.idle()
        count = min(asked.count, len(idle))
        blank = torch.full((len(asked.sizes), 2), math.nan, dtype=torch.float64)
        utility, seconds = asked.memory.get("seen", blank).numpy()[idle].T
        known = ~np.isnan(utility)
        new = min(int((~known).sum()), max(math.ceil(explore * count), count - int(known.sum())))
        fresh = draws.choice(idle[~known], new, replace=False)
        if count == new:
            return asked.cohort(fresh.tolist())
        slow = np.maximum(seconds[known] / max(np.median(seconds[known]), 1e-9), 1.0)
        chances = utility[known] / slow**penalty + 1e-9
        drawn = draws.choice(idle[known], count - new, replace=False, p=chances / chances.sum())
        return asked.cohort([*fresh.tolist(), *drawn.tolist()])

    return Sampler(draw, observe)
