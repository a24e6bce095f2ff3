"""FedAvg: every client trains E epochs on everything, however long that takes.

    w ← Σ p_i w_i

Source: McMahan et al., AISTATS 2017.
"""

from fedcore.server.merge import aggregation as by_name
from fedcore.server.method import Strategy
from fedcore.types import ClientProfile, LocalPlan, Phase, Way


def build(*, aggregation: str = "mean") -> Strategy:
    """The paper's baseline a): no deadline."""

    def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        return LocalPlan((Phase(epochs),), Way.FULL)

    return Strategy(plan, by_name(aggregation))
