"""FedCore: a slow client trains one epoch on everything, then on a coreset that fits.

    b_i = floor((c_i τ - m_i) / (E - 1)) samples S_i with weights δ        w ← Σ p_i w_i
    S_i, δ: min Σ_j min_k |g_j - g_k| over samples j and chosen k, δ_k of them nearest to k

Source: FedCore, Algorithm 1, with docs/deviations.md.
"""

from collections.abc import Mapping
from typing import Any

from fedcore import plugins
from fedcore.coreset.proxies import NONE, STATIC
from fedcore.deadline import capacity, caught_up, coreset_budget, full_set_fits
from fedcore.server.merge import aggregation as by_name
from fedcore.server.method import Strategy
from fedcore.types import SIT_OUT, ClientProfile, CoresetSpec, LocalPlan, Phase, Way, Weighting

Work = tuple[tuple[Phase, ...], Way]  # of a plan; one without phases sits the round out


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
    """Algorithm 1, lines 5 to 12; the help of ``config.Experiment`` says what the options are.

    Who cannot afford one full pass (section 4.4) takes a static coreset by inputs, or a forward
    pass and a coreset by last-layer gradients, or a random subset, or nothing; ``auto`` is the
    first for proxy ``input``, else the second, and the third where even a forward pass leaves no
    time for a coreset. Of ``method``, own options, the selector gets those that it takes.
    """
    chooser = plugins.load("selector", selector)
    by_losses = getattr(chooser, "NEEDS_LOSSES", False)
    known = plugins.taken(chooser.build, method or {}) if hasattr(chooser, "build") else {}
    own = tuple(known.items())
    look = Phase(1, forward_price=forward_price)

    def on_coreset(
        client: ClientProfile, deadline: float, epochs: int, *before: float, static: bool = False
    ) -> tuple[Phase, ...]:
        """Epochs on the coreset that fits after what has the prices ``before``, if one does."""
        asked = client, deadline, epochs, (*before, selection_price), coreset_epochs
        budget, times = coreset_budget(*asked, shorten=static)
        stand_in = STATIC if static else proxy
        spec = CoresetSpec(budget, selector, stand_in, Weighting(weighting), selection_price, own)
        return (Phase(times, spec),) if budget else ()

    def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        phases, path = in_time(client, deadline, epochs)
        planned = LocalPlan(phases, path, prox_mu) if phases else SIT_OUT
        return caught_up(planned, client.num_samples, epochs, catch_up)

    def in_time(client: ClientProfile, deadline: float, epochs: int) -> Work:
        if full_set_fits(client, deadline, epochs):  # line 6
            return (Phase(epochs),), Way.FULL  # line 7
        if not full_set_fits(client, deadline, 1):
            return below(client, deadline, epochs)
        first = Phase(1)  # line 9: on everything, and it yields the gradient distances
        if gradients == "exact" and proxy != STATIC:
            rest = on_coreset(client, deadline, epochs - 1, 1, forward_price)
            if rest:  # pay for gradients at the parameters where the coreset is used
                return (first, look, *rest), Way.CORESET
        rest = on_coreset(client, deadline, epochs - 1, 1)  # lines 10 and 11
        # Without them one pass fits, but not one sample in each epoch after it.
        return (first, *rest), Way.CORESET if rest else Way.PARTIAL

    def below(client: ClientProfile, deadline: float, epochs: int) -> Work:
        """Section 4.4: not even one pass over everything fits."""
        if below_one_pass == "sit-out":
            return (), Way.SAT_OUT
        way = "static-coreset" if (below_one_pass, proxy) == ("auto", STATIC) else below_one_pass
        if way == "static-coreset" and not by_losses:  # 4.4 a): inputs need no pass of the model
            return on_coreset(client, deadline, epochs, static=True), Way.STATIC_CORESET
        if way != "random":  # 4.4 b): gradients of the last layer alone
            rest = on_coreset(client, deadline, epochs, forward_price)
            if rest:
                return (look, *rest), Way.FORWARD_CORESET
        # What fits of a single epoch, drawn anew every round: no sample twice.
        budget = capacity(client, deadline)
        drawn = Phase(1, CoresetSpec(budget, "uniform-plain", NONE))
        return (drawn,) if budget else (), Way.RANDOM_SUBSET

    return Strategy(plan, by_name(aggregation), keeps_deadline=True)
