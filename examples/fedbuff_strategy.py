"""FedBuff: the server keeps K clients busy and merges whenever enough answers are there.

    fedcore compare --strategies fedavg,examples/fedbuff_strategy.py --selection uniform \
        --method buffer=5 --out runs/fedbuff

Nguyen et al. 2022. An answer that started from version v and arrives at version t brings
Δ_i = w_i - w^v, weighted by its staleness t - v: w <- w + η_g / K Σ_i Δ_i / √(1 + t - v).
"""

from dataclasses import replace

import torch

from fedcore.server.method import Action, Merging, Pace, Situation, Strategy
from fedcore.server.state import ServerState
from fedcore.strategies.fedavg import build as fedavg
from fedcore.types import LocalUpdate, Params


def build(*, buffer: int = 10, server_rate: float = 1.0, refill_at_once: bool = True) -> Strategy:
    """Merge every ``buffer`` answers, whoever they are from, with step η_g = ``server_rate``."""

    def enough(seen: Situation) -> Action:
        return Action.MERGE if seen.answers >= buffer else Action.WAIT

    class Buffer(Merging):
        def __init__(self, state: ServerState) -> None:
            self.state = state
            self.answers = 0
            zeros = {n: torch.zeros_like(v, dtype=torch.float64) for n, v in state.params.items()}
            self.sums = zeros

        def add(self, update: LocalUpdate, base: Params) -> None:
            staleness = self.state.version - update.base_version
            self.answers += update.copies
            for name, total in self.sums.items():
                delta = update.params[name].double() - base[name].double()
                total.add_(delta, alpha=update.copies / (1 + staleness) ** 0.5)

        def finish(self) -> ServerState:
            step = server_rate / max(1, self.answers)
            now = self.state.params
            after = {n: (v.double() + step * self.sums[n]).to(v.dtype) for n, v in now.items()}
            return replace(self.state, params=after)

    return Strategy(fedavg().plan, Buffer, Pace(enough, refill_at_once))
