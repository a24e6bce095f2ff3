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
is filled up from the nearest ones, whose losses then count as its own; and when all credits are
gone, all tiers may be drawn. Made for rounds: of an asynchronous run the first draw from a version
counts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcore.server.method import Cohort, Draw, Sampler, table
from fedcore.sources.clients import ClientSizes
from fedcore.types import LocalUpdate, Params
from fedcore.values import whole_number

Chances: TypeAlias = NDArray[np.float64]
Used: TypeAlias = Callable[[int, Chances], int]  # (version, chances) -> the tier of a round


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
    whole_number("credits", credits, 0)
    most = credits or math.ceil(2 * rounds / tiers) or math.inf

    def observe(memory: Params, update: LocalUpdate, sizes: ClientSizes) -> Params:
        """Keep Σ L and how many losses of every round."""
        version = update.base_version
        seen = table(memory, "losses", version + 1, 2)
        seen[version] += seen.new_tensor([update.loss_sum, update.loss_count])
        return {"losses": seen}

    def draw(asked: Draw) -> Cohort:
        draws, seconds = asked.generator(), asked.seconds(epochs, model_bytes)
        places = np.argsort(np.argsort(seconds, kind="stable"))  # 0 is the fastest
        tier_of = places * tiers // len(seconds)
        seen = table(asked.memory, "losses", asked.version, 2)[: asked.version]

        def used(version: int, chances: Chances) -> int:  # drawn again: a draw is its seed's alone
            before = replace(asked, version=version, again=0).generator()
            return int(before.choice(tiers, p=chances))

        chances = adapted((seen[:, 0] / seen[:, 1]).tolist(), used, tiers, interval, most)
        tier, shuffled = draws.choice(tiers, p=chances), draws.permutation(asked.idle())
        nearest = np.argsort(np.abs(tier_of[shuffled] - tier), kind="stable")
        return asked.cohort(shuffled[nearest][: asked.count].tolist())

    return Sampler(draw, observe)


def adapted(losses: Sequence[float], used: Used, tiers: int, interval: int, most: float) -> Chances:
    """Chances of tiers after rounds of mean ``losses``, NaN for none, that ``used`` one each."""
    last, spent, ranks = np.full(tiers, np.inf), np.zeros(tiers), np.ones(tiers)
    before, chances = last.copy(), ranks / tiers
    for number, loss in enumerate(losses):
        tier = used(number, chances)
        last[tier] = last[tier] if math.isnan(loss) else loss
        spent[tier] += 1
        if (number + 1) % interval == 0:
            if last[tier] > before[tier]:
                order = [t for t in np.argsort(-last, kind="stable") if spent[t] < most]
                ranks = np.zeros(tiers)
                ranks[order] = np.arange(len(order), 0, -1)
            before = last.copy()
        kinds = (ranks * (spent < most), 1.0 * (spent < most), np.ones(tiers))
        possible = next(kind for kind in kinds if kind.any())
        chances = possible / possible.sum()
    return chances
