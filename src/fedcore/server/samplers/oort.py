"""Oort: clients that bring much per second, by their losses and their time.

A client's utility is large where its losses are, and shrinks with the time it takes beyond a
preferred one. A share of every cohort is drawn from clients that never answered. With R for the
round, B_i for client i's samples, L_i for the round and t_i for the seconds of its last answer:

    U_i = |B_i| √(mean L²), cut at the 95th percentile of all, then scaled to [0, 1]
    utility_i = (U_i + √(0.1 ln R / L_i)) · min(1, T / t_i)^α

Of K clients, ε K are new, drawn by m_i min(1, T / t_i)^α, with the t_i that their profiles promise.
The others are drawn by utility, from those above c times the utility of rank (1 - ε) K. T is a
percentile of everybody's t_i, raised when Σ U over W rounds is no larger than over the W before.

Source: Lai et al., "Oort: Efficient Federated Learning via Guided Participant Selection", OSDI
2021. Defaults: ε 0.9, times 0.98 a round, at least 0.3; α 2; c 0.95; T from the 30th percentile on,
in steps of 5; W 20. Over-selection is a strategy's matter, and nobody is banned for being
drawn often.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.server.method import Cohort, Draw, Sampler
from fedcore.server.samplers._answers import profiled_seconds, table
from fedcore.sources.clients import ClientSizes
from fedcore.types import LocalUpdate, Params

TINY = 1e-9  # so that nobody who may be drawn has no chance at all


def build(
    *,
    epochs: int = 1,
    model_bytes: int = 0,
    explore: float = 0.9,
    explore_decay: float = 0.98,
    explore_least: float = 0.3,
    penalty: float = 2.0,
    cut_off: float = 0.95,
    clip: float = 95.0,
    preferred: float = 30.0,
    pacer_step: float = 5.0,
    pacer_window: int = 20,
) -> Sampler:
    """``penalty`` is α, ``cut_off`` c, ``preferred`` the percentile that T begins with."""

    def observe(memory: Params, update: LocalUpdate, sizes: ClientSizes) -> Params:
        """Keep (U, t, L) of everybody's last answer, and Σ U of every round."""
        now = update.base_version + 1
        mean_square = update.loss_square_sum / max(1, update.loss_count)
        utility = update.num_samples * math.sqrt(mean_square)
        last = table(memory, "last", len(sizes), 3)
        last[sizes.place(update.client_id)] = torch.tensor([utility, update.seconds or 0.0, now])
        rounds = max(now, len(memory.get("achieved", ())))
        achieved = table(memory, "achieved", rounds, 1)
        achieved[now - 1] += utility
        return {"last": last, "achieved": achieved}

    def draw(asked: Draw) -> Cohort:
        draws, idle, now = asked.generator(), asked.idle(), asked.version + 1
        count = min(asked.count, len(idle))
        if count == 0:
            return {}
        utility, seconds, last = table(asked.memory, "last", len(asked.sizes), 3).numpy()[idle].T
        known = last > 0
        seconds[~known] = profiled_seconds(asked, idle[~known], epochs, model_bytes)
        achieved = asked.memory.get("achieved", torch.zeros(0))
        percentile = preferred + pacer_step * _relaxed(achieved, pacer_window)
        limit = np.percentile(seconds, min(100.0, percentile))
        slow = np.minimum(1.0, limit / np.maximum(seconds, TINY)) ** penalty
        share = max(explore_least, explore * explore_decay**asked.version)
        missing = count - int(known.sum())
        new = min(int((~known).sum()), max(round(share * count), missing))
        size = asked.sizes.counts[idle[~known]] * slow[~known]
        fresh = draws.choice(idle[~known], new, replace=False, p=_chances(size))
        if new == count:
            return asked.cohort(fresh.tolist())
        doubt = np.sqrt(0.1 * math.log(now) / last[known])
        worth = (_scaled(utility[known], clip) + doubt) * slow[known]
        admitted = worth >= cut_off * np.sort(worth)[new - count]
        known_idle, chances = idle[known][admitted], _chances(worth[admitted])
        drawn = draws.choice(known_idle, count - new, replace=False, p=chances)
        return asked.cohort([*fresh.tolist(), *drawn.tolist()])

    return Sampler(draw, observe)


def _scaled(utility: NDArray[np.float64], clip: float) -> NDArray[np.float64]:
    """Utilities cut at a percentile, the lowest as 0 and the highest as 1."""
    cut = np.minimum(utility, np.percentile(utility, clip))
    scaled: NDArray[np.float64] = (cut - cut.min()) / max(float(np.ptp(cut)), TINY)
    return scaled


def _chances(weights: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Probabilities in proportion to the weights; None where there are none."""
    weights = weights + TINY
    return weights / weights.sum() if len(weights) else None


def _relaxed(achieved: Tensor, window: int) -> int:
    """How many windows of rounds brought no more than the one before: each has relaxed T."""
    windows = len(achieved) // window
    sums = achieved[: windows * window].reshape(windows, window).sum(dim=1)
    return int((sums[1:] <= sums[:-1]).sum())
