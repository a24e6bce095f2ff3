"""Who takes part in a round (Algorithm 1, line 3)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedcore.seeding import stream
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientId
from fedcore.values import SELECTIONS, one_of


def draw_cohort(
    selection: str, sizes: Mapping[ClientId, int], count: int, round_number: int, seed: int
) -> dict[ClientId, int]:
    """The clients of a round, and how often each was drawn.

    * ``proportional``: ``count`` draws with replacement, client i with probability
      p^i = m^i / Σ m (Assumption "random sampling"). A client drawn twice trains once, and its
      answer counts twice: its w_r^i is one quantity in the paper.
    * ``uniform``: ``count`` different clients, all equally likely.
    * ``uniform-by-round``: the same by NumPy's legacy generator seeded with the round number,
      whatever the experiment's seed: what the authors' code does.

    The draw knows nothing of the strategy, so every strategy of a comparison sees the same. Give
    ``ClientSizes`` to draw from a large fleet: they need no look at every client.
    """
    one_of(*SELECTIONS)("selection", selection)
    known = ClientSizes.of(sizes)
    clients = known.ids
    if selection == "proportional":
        chances = known.counts.astype(float)
        generator = stream(seed, "cohort", round_number)
        drawn = generator.choice(len(clients), size=count, p=chances / chances.sum())
    else:
        size = min(count, len(clients))
        if selection == "uniform":
            drawn = stream(seed, "cohort", round_number).choice(len(clients), size, replace=False)
        else:
            drawn = np.random.RandomState(round_number).choice(len(clients), size, replace=False)
    cohort: dict[ClientId, int] = {}
    for position in drawn.tolist():
        cohort[clients[position]] = cohort.get(clients[position], 0) + 1
    return cohort
