"""Random subset: who is slow trains E epochs on as many samples as fit, drawn anew every round.

The plainest rival of a coreset: n of m samples, all equally likely and no sample twice, with

    n = floor(c τ / E)        weight m / n each: the expected gradient is that of all samples

Where n is 0, one sample is trained for the epochs that fit. Choosing costs nothing.

Source: folklore, which the papers of FedCore and FedBalancer do not compare with. Defaults: none.
"""

from fedcore.coreset.proxies import NONE
from fedcore.deadline import coreset_budget, full_set_fits
from fedcore.server.merge import aggregation as by_name
from fedcore.server.method import Strategy
from fedcore.types import SIT_OUT, ClientProfile, CoresetSpec, LocalPlan, Phase, Way


def build(*, aggregation: str = "mean") -> Strategy:
    """One draw a round."""
    return on_subsets("uniform-plain", aggregation)


def on_subsets(selector: str, aggregation: str, *, redraw: bool = False) -> Strategy:
    """A strategy whose slow clients train on what a selector draws: once, or anew every epoch."""

    def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        if full_set_fits(client, deadline, epochs):
            return LocalPlan((Phase(epochs),), Way.FULL)
        budget, times = coreset_budget(client, deadline, epochs, (), shorten=True)
        spec = CoresetSpec(budget, selector, NONE)
        phases = (Phase(1, spec),) * times if redraw else (Phase(times, spec),)
        return LocalPlan(phases, Way.RANDOM_SUBSET) if budget else SIT_OUT

    return Strategy(plan, by_name(aggregation), keeps_deadline=True)
