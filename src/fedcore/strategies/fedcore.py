"""FedCore: a slow client trains one epoch on everything, then on a coreset that fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedcore import plugins
from fedcore.coreset.proxies import NONE, STATIC
from fedcore.deadline import (
    capacity,
    coreset_budget,
    forward_coreset_budget,
    full_set_fits,
    one_pass_fits,
    static_coreset_budget,
)
from fedcore.server.merge import aggregation as by_name
from fedcore.server.method import Strategy
from fedcore.strategies._catch_up import caught_up
from fedcore.types import (
    SIT_OUT,
    ClientProfile,
    CoresetSpec,
    LocalPlan,
    Path,
    Phase,
    Weighting,
)
from fedcore.values import BELOW_ONE_PASS, one_of

STATIC_WAY = "static-coreset"


def build(
    *,
    aggregation: str = "mean",
    selector: str = "kmedoids",
    proxy: str = "input",
    weighting: str = Weighting.SCALED,
    below_one_pass: str = "auto",
    forward_price: float = 1 / 3,
    gradients: str = "free",
    prox_mu: float = 0.0,
    catch_up: float = 1.0,
    coreset_epochs: int = 0,
    selection_price: float = 0.0,
    method: Mapping[str, Any] | None = None,
) -> Strategy:
    """Algorithm 1, lines 5 to 12.

    Args:
        aggregation: ``mean`` (line 15) or ``samples``.
        selector: which coreset method fills the budget.
        proxy: what stands in for a sample's gradient (section 4.3).
        weighting: how coreset weights enter a mini-batch.
        below_one_pass: what a client does that cannot afford one full pass (section 4.4):
            a static coreset by inputs, a forward pass and a coreset by last-layer gradients, a
            random subset, or nothing; ``auto`` is the first for proxy ``input``, else the
            second, and the third where even a forward pass leaves no time for a coreset.
        forward_price: what a forward pass costs, in trained samples.
        gradients: ``free``, from the first epoch's own steps (section 4.3), or ``exact``, from a
            forward pass at its end that is taken from the coreset's budget.
        prox_mu: FedProx's proximal term on top; 0 in the paper.
        catch_up: largest factor by which a straggler's steps grow to make up for those it has
            no time for; 1 in the paper.
        coreset_epochs: fewest epochs that a coreset is trained for: a client that needs no more
            takes a larger coreset in the same time. 0 is the paper's E - 1.
        selection_price: what choosing a coreset costs per sample it is chosen from, in trained
            samples; free in the paper.
        method: own options, of which the selector gets those that it takes.
    """
    one_of(*BELOW_ONE_PASS)("below_one_pass", below_one_pass)
    chooser = plugins.load("selector", selector)
    by_losses = getattr(chooser, "NEEDS_LOSSES", False)
    own = plugins.taken(chooser.build, method or {}) if hasattr(chooser, "build") else {}

    def coreset(budget: int, stand_in: str) -> CoresetSpec:
        return CoresetSpec(
            budget,
            selector,
            stand_in,
            Weighting(weighting),
            selection_price,
            tuple(own.items()),
        )

    def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        planned = in_time(client, deadline, epochs)
        return caught_up(planned, client.num_samples, epochs, catch_up)

    def in_time(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        if full_set_fits(client, deadline, epochs):  # line 6
            return LocalPlan((Phase(epochs),), Path.FULL, prox_mu)  # line 7
        if not one_pass_fits(client, deadline):
            return below(client, deadline, epochs)
        first = Phase(1)  # line 9: on everything, and it yields the gradient distances
        if gradients == "exact" and proxy != STATIC:
            budget, times = coreset_budget(
                client, deadline, epochs, forward_price, coreset_epochs, selection_price
            )
            if budget > 0:  # pay for gradients at the parameters where the coreset is used
                scan = Phase(1, forward_price=forward_price)
                rest = Phase(times, coreset(budget, proxy))
                return LocalPlan((first, scan, rest), Path.CORESET, prox_mu)
        budget, times = coreset_budget(
            client, deadline, epochs, 0.0, coreset_epochs, selection_price
        )
        if budget == 0:  # one pass fits, but not one sample in each epoch after it
            return LocalPlan((first,), Path.PARTIAL, prox_mu)
        rest = Phase(times, coreset(budget, proxy))  # lines 10 and 11
        return LocalPlan((first, rest), Path.CORESET, prox_mu)

    def below(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        """Section 4.4: not even one pass over everything fits."""
        if below_one_pass == "sit-out":
            return SIT_OUT
        by_inputs = proxy == STATIC if below_one_pass == "auto" else below_one_pass == STATIC_WAY
        if by_inputs and not by_losses:  # 4.4 a): inputs' distances need no pass over the model
            budget, times = static_coreset_budget(
                client, deadline, epochs, coreset_epochs, selection_price
            )
            if budget == 0:
                return SIT_OUT
            only = Phase(times, coreset(budget, STATIC))
            return LocalPlan((only,), Path.STATIC_CORESET, prox_mu)
        budget, times = forward_coreset_budget(
            client, deadline, epochs, forward_price, coreset_epochs, selection_price
        )
        if below_one_pass != "random" and budget > 0:  # 4.4 b): gradients of the last layer alone
            scan = Phase(1, forward_price=forward_price)
            rest = Phase(times, coreset(budget, proxy))
            return LocalPlan((scan, rest), Path.FORWARD_CORESET, prox_mu)
        return random_subset(client, deadline)

    def random_subset(client: ClientProfile, deadline: float) -> LocalPlan:
        """What fits of a single epoch, drawn anew every round: no sample twice."""
        budget = min(capacity(client, deadline), client.num_samples)
        if budget == 0:
            return SIT_OUT
        spec = CoresetSpec(budget, "uniform-plain", NONE)
        return LocalPlan((Phase(1, spec),), Path.RANDOM_SUBSET, prox_mu)

    return Strategy(plan, by_name(aggregation))
