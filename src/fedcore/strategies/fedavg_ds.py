"""FedAvg-DS: FedAvg that drops whoever would miss the deadline.

    w ← Σ p_i w_i over clients with E m_i / c_i ≤ τ

Source: a baseline of the FedCore paper.
"""

from fedcore.deadline import full_set_fits
from fedcore.server.merge import aggregation as by_name
from fedcore.server.method import Strategy
from fedcore.types import SIT_OUT, ClientProfile, LocalPlan, Phase, Way


def build(*, aggregation: str = "mean") -> Strategy:
    """The paper's baseline b): aggregate the clients that are no stragglers."""

    def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        if full_set_fits(client, deadline, epochs):
            return LocalPlan((Phase(epochs),), Way.FULL)
        return SIT_OUT

    return Strategy(plan, by_name(aggregation), keeps_deadline=True)
