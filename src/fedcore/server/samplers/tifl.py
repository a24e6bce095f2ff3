"""TiFL: clients in tiers of like speed, one tier a round, those that do badly more often.

Clients are sorted by the seconds that their profiles promise and cut into five tiers of one size. A
round draws its clients from one tier, so nobody waits for a much slower one. Every I rounds, if the
tier used last does worse than I rounds before, chances change: the n tiers with credits left are
sorted, worst first, and number i = 0 ... n - 1 has

    p_i = (n - i) / (n (n + 1) / 2).

Every use of a tier costs one of its credits; without any it is not drawn.

Source: Chai et al., "TiFL: A Tier-based Federated Learning System", HPDC 2020. Defaults: 5 tiers,
I 20, credits for twice the even share of the rounds; the paper leaves the last two open.
Departures: a server sees losses of answers and no accuracy per tier, so the worst tier is that
whose last answers had the largest mean loss, or that never answered; a tier smaller than the cohort
is filled up from the nearest ones; and when all credits are gone, all tiers may be drawn.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from fedcore.errors import BadOption
from fedcore.server.method import Cohort, Draw, Sampler
from fedcore.server.samplers._answers import profiled_seconds, table
from fedcore.sources.clients import ClientSizes
from fedcore.types import LocalUpdate, Params


def build(
    *,
    epochs: int = 1,
    model_bytes: int = 0,
    rounds: int = 0,
    tiers: int = 5,
    interval: int = 20,
    credits: int = 0,
) -> Sampler:
    """``interval`` is I; ``credits`` of each tier, 0: ceil(2 rounds / tiers)."""
    if tiers < 1 or interval < 1:
        raise BadOption(f"tiers and interval must be at least 1, got {tiers} and {interval}")
    most = credits or math.ceil(2 * rounds / tiers) or math.inf

    def observe(memory: Params, update: LocalUpdate, sizes: ClientSizes) -> Params:
        """Keep a client, Σ L and how many losses of every round: all are of one tier."""
        version = update.base_version
        seen = table(memory, "rounds", max(version + 1, len(memory.get("rounds", ()))), 3)
        seen[version, 0] = sizes.place(update.client_id)
        seen[version, 1:] += torch.tensor([update.loss_sum, update.loss_count]).double()
        return {"rounds": seen}

    def draw(asked: Draw) -> Cohort:
        draws, idle, everybody = asked.generator(), asked.idle(), range(len(asked.sizes))
        seconds = profiled_seconds(asked, everybody, epochs, model_bytes)
        tier_of = np.empty(len(seconds), np.int64)
        tier_of[np.argsort(seconds, kind="stable")] = (
            np.arange(len(seconds)) * tiers // len(seconds)
        )
        seen = asked.memory.get("rounds", torch.zeros(0, 3)).numpy()
        used = np.where(seen[:, 2] > 0, tier_of[seen[:, 0].astype(np.int64)], -1)
        losses = seen[:, 1] / np.maximum(seen[:, 2], 1)
        chances = adapted(used, losses, tiers, interval, most)
        tier = draws.choice(tiers, p=chances)
        shuffled = draws.permutation(idle)
        nearest = np.argsort(np.abs(tier_of[shuffled] - tier), kind="stable")
        return asked.cohort(shuffled[nearest][: asked.count].tolist())

    return Sampler(draw, observe)


def adapted(
    used: NDArray[np.int64], losses: NDArray[np.float64], tiers: int, interval: int, most: float
) -> NDArray[np.float64]:
    """Chances of the tiers after rounds that ``used`` one each, -1 for none, with mean losses."""

    def known(rounds: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Every tier's last loss so many rounds on, infinite without one; and who has credits."""
        last = np.full(tiers + 1, np.inf)
        last[used[:rounds]] = losses[:rounds]  # of equal places the last is kept; -1 is nobody
        spent = np.bincount(used[:rounds] + 1, minlength=tiers + 1)[1:]
        return last[:tiers], spent < most

    chances = np.ones(tiers)
    for rounds in range(interval, len(used) + 1, interval):
        (now, open_now), (before, _) = known(rounds), known(rounds - interval)
        tier = used[rounds - 1]
        if tier >= 0 and now[tier] > before[tier]:
            order = np.argsort(-now, kind="stable")
            order = order[open_now[order]]
            chances = np.zeros(tiers)
            chances[order] = np.arange(len(order), 0, -1)
    _, left = known(len(used))
    kinds = (chances * left, 1.0 * left, np.ones(tiers))
    possible = next(kind for kind in kinds if kind.any())
    return np.asarray(possible / possible.sum())
