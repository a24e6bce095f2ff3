"""FedAvg: every client trains E epochs on everything, however long that takes."""

from __future__ import annotations

from fedcore.server.merge import aggregation as by_name
from fedcore.server.method import Strategy
from fedcore.types import ClientProfile, LocalPlan, Path, Phase


def build(*, aggregation: str = "mean") -> Strategy:
    """McMahan et al. 2017, the paper's baseline a): no deadline."""

    def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        return LocalPlan((Phase(epochs),), Path.FULL)

    return Strategy(plan, by_name(aggregation))
