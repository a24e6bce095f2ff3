"""TiFL: clients in tiers of like speed, one tier a round, those that do badly more often.

Clients are sorted by the seconds that their profiles promise and cut into tiers of one size. A
round draws its clients from one tier, so nobody waits for a much slower one. Every I rounds, if the
tier used last does worse than I rounds before, chances change: the n tiers with credits left are
sorted, worst first, and number i = 0 ... n - 1 has p_i = (n - i) / (n (n + 1) / 2). Every use of a
tier costs one of its credits; without any it is not drawn.

Source: Chai et al., "TiFL: A Tier-based Federated Learning System", HPDC 2020. Defaults: 5 tiers,
I 20, credits for twice the even share of the rounds; the paper leaves the last two open.
Departures: a server sees losses of answers and no accuracy per tier, so the worst tier is that
whose last answers had the largest mean loss, or that never answered; a tier smaller than the cohort
is filled up from the nearest ones; and when all credits are gone, all tiers may be drawn.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fedcore.server.method import Cohort, Draw, Sampler, table
from fedcore.sources.clients import ClientSizes
from fedcore.types import LocalUpdate, Params
from fedcore.values import whole_number


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
    whole_number("tiers", tiers, 1)
    whole_number("interval", interval, 1)
    most = credits or math.ceil(2 * rounds / tiers) or math.inf

    def observe(memory: Params, update: LocalUpdate, sizes: ClientSizes) -> Params:
        """Keep a client, Σ L and how many losses of every round: all are of one tier."""
        version = update.base_version
        seen = table(memory, "rounds", version + 1, 3)
        seen[version, 0] = sizes.place(update.client_id)
        seen[version, 1] += update.loss_sum
        seen[version, 2] += update.loss_count
        return {"rounds": seen}

    def draw(asked: Draw) -> Cohort:
        draws, seconds = asked.generator(), asked.seconds(epochs, model_bytes)
        places = np.argsort(np.argsort(seconds, kind="stable"))  # 0 is the fastest
        tier_of = places * tiers // len(seconds)
        client, sums, counts = table(asked.memory, "rounds", 0, 3).numpy().T
        used = np.where(counts > 0, tier_of[client.astype(np.int64)], -1)
        chances = adapted(used, sums / np.maximum(counts, 1), tiers, interval, most)
        tier, shuffled = draws.choice(tiers, p=chances), draws.permutation(asked.idle())
        nearest = np.argsort(np.abs(tier_of[shuffled] - tier), kind="stable")
        return asked.cohort(shuffled[nearest][: asked.count].tolist())

    return Sampler(draw, observe)


def adapted(
    used: NDArray[np.int64], losses: NDArray[np.float64], tiers: int, interval: int, most: float
) -> NDArray[np.float64]:
    """Chances of the tiers after rounds that ``used`` one each, -1 for none, with mean losses."""
    last, spent, chances = np.full(tiers, np.inf), np.zeros(tiers), np.ones(tiers)
    before = last.copy()
    for number, (tier, loss) in enumerate(zip(used, losses, strict=True), 1):
        if tier >= 0:
            last[tier] = loss
            spent[tier] += 1
        if number % interval == 0:
            if tier >= 0 and last[tier] > before[tier]:
                order = [t for t in np.argsort(-last, kind="stable") if spent[t] < most]
                chances = np.zeros(tiers)
                chances[order] = np.arange(len(order), 0, -1)
            before = last.copy()
    kinds = (chances * (spent < most), 1.0 * (spent < most), np.ones(tiers))
    possible = next(kind for kind in kinds if kind.any())
    return np.asarray(possible / possible.sum())
