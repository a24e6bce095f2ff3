"""A straggler method of your own, beside the others: one file, one command.

    fedcore compare --strategies fedprox,fedcore,examples/own_strategy.py --out runs/own

A slow client here trains on a random coreset from the first epoch on, so it never makes a full
pass. ``build`` takes whatever options of ``fedcore compare`` it names. ``plan`` may be called more
than once for a client and a round, and rounds ahead: it decides by its arguments alone. Copied to
``src/fedcore/strategies/`` the file is one of the strategies that ``fedcore list`` shows.
"""

from fedcore.deadline import capacity, full_set_fits
from fedcore.server.merge import aggregation as by_name
from fedcore.server.method import Strategy
from fedcore.types import SIT_OUT, ClientProfile, CoresetSpec, LocalPlan, Phase, Way


def build(*, aggregation: str = "mean") -> Strategy:
    """Every epoch on floor(c^i·τ / E) random samples, each counting for its neighbours."""

    def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        if full_set_fits(client, deadline, epochs):
            return LocalPlan((Phase(epochs),), Way.FULL)
        most = capacity(client, deadline)  # samples that fit before the deadline
        if most == 0:
            return SIT_OUT
        budget = max(1, most // epochs)
        affordable = min(epochs, most // budget)  # fewer epochs where not one sample fits in each
        coreset = CoresetSpec(budget, selector="uniform", proxy="input")
        return LocalPlan((Phase(affordable, coreset),), Way.STATIC_CORESET)

    return Strategy(plan, by_name(aggregation))
