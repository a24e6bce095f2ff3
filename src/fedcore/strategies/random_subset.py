"""Random subset: who is slow trains E epochs on as many samples as fit, drawn anew every round.

The plainest rival of a coreset. Of a client's m samples

    n = floor(c τ / E)

are drawn, all equally likely and no sample twice, and each weighs m / n: the expected gradient is
that of all samples. Where n is 0, one sample is trained for the epochs that fit; who is fast enough
trains on everything. Choosing costs nothing.

Source: folklore, which the papers of FedCore and FedBalancer do not compare with. Defaults: none.
"""

from __future__ import annotations

from fedcore.coreset.proxies import NONE
from fedcore.deadline import caught_up, coreset_budget, full_set_fits
from fedcore.server.merge import aggregation as by_name
from fedcore.server.method import Strategy
from fedcore.types import SIT_OUT, ClientProfile, CoresetSpec, LocalPlan, Path, Phase


def build(*, aggregation: str = "mean", catch_up: float = 1.0) -> Strategy:
    """``catch_up`` lets steps of slow clients grow, as for FedCore."""
    return on_subsets("uniform-plain", aggregation, catch_up)


def on_subsets(
    selector: str, aggregation: str, catch_up: float, *, redraw: bool = False
) -> Strategy:
    """A strategy whose slow clients train on what a selector draws: once, or anew every epoch."""

    def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        if full_set_fits(client, deadline, epochs):
            return LocalPlan((Phase(epochs),), Path.FULL)
        budget, times = coreset_budget(client, deadline, epochs, (), shorten=True)
        if budget == 0:
            return SIT_OUT
        spec = CoresetSpec(budget, selector, NONE)
        phases = (Phase(1, spec),) * times if redraw else (Phase(times, spec),)
        own = LocalPlan(phases, Path.RANDOM_SUBSET)
        return caught_up(own, client.num_samples, epochs, catch_up)

    return Strategy(plan, by_name(aggregation), keeps_deadline=True)
