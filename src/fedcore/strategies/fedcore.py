"""FedCore: a slow client trains one epoch on everything, then on a coreset that fits."""

from __future__ import annotations

from fedcore.coreset.budget import (
    coreset_budget,
    full_set_fits,
    one_pass_fits,
    static_coreset_budget,
)
from fedcore.errors import BadOption
from fedcore.server.aggregate import aggregation as by_name
from fedcore.types import (
    SIT_OUT,
    ClientProfile,
    CoresetSpec,
    LocalPlan,
    Path,
    Phase,
    Strategy,
    Weighting,
)

BELOW_ONE_PASS = ("static-coreset", "sit-out")


def build(
    *,
    aggregation: str = "mean",
    selector: str = "kmedoids",
    proxy: str = "input",
    weighting: str = Weighting.SCALED,
    below_one_pass: str = "static-coreset",
    prox_mu: float = 0.0,
) -> Strategy:
    """Algorithm 1, lines 5 to 12.

    Args:
        aggregation: ``mean`` (line 15) or ``samples``.
        selector: which coreset method fills the budget.
        proxy: what stands in for a sample's gradient (section 4.3).
        weighting: how coreset weights enter a mini-batch.
        below_one_pass: what a client does that cannot afford one full pass (section 4.4).
        prox_mu: FedProx's proximal term on top; 0 in the paper.
    """
    if below_one_pass not in BELOW_ONE_PASS:
        raise BadOption(
            f"below_one_pass must be one of {', '.join(BELOW_ONE_PASS)}, got {below_one_pass!r}"
        )

    def coreset(budget: int, stand_in: str) -> CoresetSpec:
        return CoresetSpec(budget, selector, stand_in, Weighting(weighting))

    def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        if full_set_fits(client, deadline, epochs):  # line 6
            return LocalPlan((Phase(epochs),), Path.FULL, prox_mu)  # line 7
        if not one_pass_fits(client, deadline):
            return below(client, deadline, epochs)
        budget = coreset_budget(client, deadline, epochs)
        first = Phase(1)  # line 9: on everything, and it yields the gradient distances
        if budget == 0:  # one pass fits, but not one sample in each epoch after it
            return LocalPlan((first,), Path.PARTIAL, prox_mu)
        rest = Phase(epochs - 1, coreset(budget, proxy))  # lines 10 and 11
        return LocalPlan((first, rest), Path.CORESET, prox_mu)

    def below(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        """Section 4.4 a): distances between inputs need no pass over the model."""
        budget, affordable = static_coreset_budget(client, deadline, epochs)
        if below_one_pass == "sit-out" or budget == 0:
            return SIT_OUT
        only = Phase(affordable, coreset(budget, "input"))
        return LocalPlan((only,), Path.STATIC_CORESET, prox_mu)

    return Strategy(plan, by_name(aggregation), meets_deadline=True)
