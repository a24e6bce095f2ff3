"""Importance sampling: who is slow trains on samples drawn by the length of their gradients.

A forward pass on all m samples, which is charged, yields the scores s_j = |dL_j/da|, a the output
of the last layer. Then n samples are drawn with replacement for E epochs, weighted so that the
expected gradient is that of all:

    p_j = s_j / Σ s        weight 1 / (n p_j) for each time that j was drawn, so m in the mean

The gate: √(m Σ p²) says how many times as many uniform draws would do; unless it is above
(m + 3 n) / (3 n), where the forward pass pays, the draw is uniform. Who has no time for that pass
trains on a random subset.

Source: Katharopoulos and Fleuret, "Not All Samples Are Created Equal", ICML 2018; their pool is
drawn, and the gate smoothed over pools, ours is all of a client's samples. Default: the gate above.
"""

from __future__ import annotations

from fedcore.coreset.proxies import LOGITS
from fedcore.deadline import caught_up, coreset_budget, full_set_fits
from fedcore.server.method import Strategy
from fedcore.strategies import random_subset
from fedcore.types import ClientProfile, CoresetSpec, LocalPlan, Path, Phase


def build(
    *,
    aggregation: str = "mean",
    forward_price: float = 1 / 3,
    catch_up: float = 1.0,
    gate: float = 0.0,
) -> Strategy:
    """A ``gate`` of 0 is (m + 3 n) / (3 n); 1 has all draws by length."""
    own = (("gate", gate),)
    otherwise = random_subset.build(aggregation=aggregation, catch_up=catch_up)

    def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        budget, times = coreset_budget(client, deadline, epochs, (forward_price,))
        if budget == 0 or full_set_fits(client, deadline, epochs):
            return otherwise.plan(client, deadline, epochs)
        spec = CoresetSpec(budget, "importance", LOGITS, options=own)
        phases = (Phase(1, forward_price=forward_price), Phase(times, spec))
        told = LocalPlan(phases, Path.FORWARD_CORESET)
        return caught_up(told, client.num_samples, epochs, catch_up)

    return Strategy(plan, otherwise.merge, keeps_deadline=True)
