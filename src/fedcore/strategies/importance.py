"""Importance sampling: who is slow trains on samples drawn by the length of their gradients.

A forward pass on all m samples, which is charged, yields the scores s_j = |dL_j/da|, a the output
of the last layer. Then n samples are drawn with replacement for E epochs, and weighted:

    p_j = s_j / Σ s        1 / (n p_j) for each time that j was drawn: m in the mean

so that the expected gradient is that of all. The gate: √(m Σ p²) says how many times as many
uniform draws would do; up to (m + 3 n) / (3 n) the pass does not pay, and the draw is uniform. Who
has no time for the pass trains on a random subset.

Source: Katharopoulos and Fleuret, "Not All Samples Are Created Equal", ICML 2018; their pool is
drawn, and the gate smoothed over pools, ours is all of a client's samples. Defaults: none.
"""

from fedcore.coreset.proxies import LOGITS
from fedcore.deadline import coreset_budget, full_set_fits
from fedcore.server.method import Strategy
from fedcore.strategies import random_subset
from fedcore.types import ClientProfile, CoresetSpec, LocalPlan, Phase, Way


def build(*, aggregation: str = "mean", forward_price: float = 1 / 3) -> Strategy:
    """``forward_price`` is that of a forward pass, in trained samples."""
    otherwise = random_subset.build(aggregation=aggregation)

    def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        budget, times = coreset_budget(client, deadline, epochs, (forward_price,))
        if budget == 0 or full_set_fits(client, deadline, epochs):
            return otherwise.plan(client, deadline, epochs)
        drawn = Phase(times, CoresetSpec(budget, "importance", LOGITS))
        return LocalPlan((Phase(1, forward_price=forward_price), drawn), Way.FORWARD_CORESET)

    return Strategy(plan, otherwise.merge, keeps_deadline=True)
