"""Oort: clients that bring much per second, by their losses and their time.

A client's utility grows with its losses, and falls with the time it takes beyond a preferred one; a
share of every cohort is new. With R for the round, and of client i m_i for its samples, L_i for the
round and t_i for the seconds of its last answer, or those that its profile promises:

    U_i = m_i √(mean L²), cut at the 95th percentile of all, then scaled to [0, 1]
    utility_i = (U_i + √(0.1 ln R / L_i)) · min(1, T / t_i)^α

Of K clients, ε K are new, drawn by m_i min(1, T / t_i)^α. The others are drawn by utility, from
those above c times the utility of rank (1 - ε) K. T is a percentile of everybody's t_i, which is
raised when Σ m √(mean L²) over W rounds is no larger than over the W rounds before.

Source: Lai et al., "Oort: Efficient Federated Learning via Guided Participant Selection", OSDI
2021. Defaults: ε 0.9, times 0.98 a round, at least 0.3; α 2; c 0.95; T from the 30th percentile on,
in steps of 5; W 20. Over-selection is a strategy's matter; nobody is banned for being drawn often.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from fedcore.server.method import Cohort, Draw, Sampler, table
from fedcore.sources.clients import ClientSizes
from fedcore.types import LocalUpdate, Params
from fedcore.values import at_least, whole_number

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
    whole_number("pacer_window", pacer_window, 1)
    for name, own in (("explore", explore), ("explore_least", explore_least), ("cut_off", cut_off)):
        at_least(0, 1)(name, own)
    for name, own in (("clip", clip), ("preferred", preferred), ("penalty", penalty)):
        at_least(0, 100)(name, own)

    def observe(memory: Params, update: LocalUpdate, sizes: ClientSizes) -> Params:
        """Keep (U, t, L) of everybody's last answer, and Σ U of every round."""
        now, mean = update.base_version + 1, update.loss_square_sum / max(1, update.loss_count)
        utility = update.num_samples * math.sqrt(min(1e99, mean))  # infinite or NaN: it diverges
        last, achieved = table(memory, "last", len(sizes), 3), table(memory, "achieved", now, 1)
        own = (utility, update.seconds or 0.0, now)
        last[sizes.place(update.client_id)] = torch.tensor(own, dtype=last.dtype)
        achieved[now - 1] += utility
        return {"last": last, "achieved": achieved}

    def draw(asked: Draw) -> Cohort:
        draws, idle = asked.generator(), asked.idle()
        count = min(asked.count, len(idle))
        if count == 0:
            return {}
        utility, seconds, last = table(asked.memory, "last", len(asked.sizes), 3).numpy()[idle].T
        known, unmeasured = last > 0, seconds == 0  # who sat out is known, but not its time
        seconds[unmeasured] = asked.seconds(epochs, model_bytes)[idle[unmeasured]]
        achieved = table(asked.memory, "achieved", 0, 1).numpy()
        windows = achieved[: len(achieved) // pacer_window * pacer_window]
        sums = windows.reshape(-1, pacer_window).sum(axis=1)
        percentile = preferred + pacer_step * (sums[1:] <= sums[:-1]).sum()
        limit = np.percentile(seconds, min(100.0, percentile))
        slow = np.minimum(1.0, limit / np.maximum(seconds, TINY)) ** penalty
        share = max(explore_least, explore * explore_decay**asked.version)
        new = max(round(share * count), count - int(known.sum()))
        new = min(new, int((~known).sum()))
        chances = _chances(asked.sizes.counts[idle[~known]] * slow[~known])
        fresh = draws.choice(idle[~known], new, replace=False, p=chances)
        if new == count:
            return asked.cohort(fresh.tolist())
        cut = np.minimum(utility[known], np.percentile(utility[known], clip))
        scaled = (cut - cut.min()) / max(np.ptp(cut), TINY)
        age = np.sqrt(0.1 * math.log(asked.version + 1) / last[known])
        worth = (scaled + age) * slow[known]
        admitted = worth >= cut_off * np.sort(worth)[new - count]
        chances = _chances(worth[admitted])
        drawn = draws.choice(idle[known][admitted], count - new, replace=False, p=chances)
        return asked.cohort([*fresh.tolist(), *drawn.tolist()])

    return Sampler(draw, observe)


def _chances(weights: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Probabilities in proportion to the weights; None where there are none."""
    return (weights + TINY) / (weights + TINY).sum() if len(weights) else None
