"""Tempo: who is slow trains on as much as fits, drawn anew, and its answer is lengthened for it.

Whole epochs, then a draw of what fits. Who so does n of E m samples moves the model by Δ:

    n_i = min(E m_i, c_i τ)        φ_i = max(1, min(E m_i / n_i, R / |Δ_i|))
    w ← w + Σ p_i φ_i Δ_i          R: median |Δ| of those who did everything

R is that of the last merge that had any of those; before there is one, the median of all. So nobody
is carried further than they go who have the time, and no limit is set by hand.

Source: ours, FedCore with what docs/choosing.md measures (docs/adr/0018).
"""

import math
from dataclasses import replace
from statistics import median

import torch

from fedcore.coreset.proxies import NONE
from fedcore.deadline import capacity
from fedcore.server.merge import AGGREGATIONS, Updates, all_at_once, moved, summed
from fedcore.server.method import Strategy
from fedcore.server.state import ServerState
from fedcore.types import SIT_OUT, ClientProfile, CoresetSpec, LocalPlan, LocalUpdate, Path, Phase


def build(*, aggregation: str = "mean", epochs: int = 10, batch_size: int = 8) -> Strategy:
    """E and the samples of a step say how many steps a whole round has."""
    weigh = AGGREGATIONS[aggregation]

    def missed(one: LocalUpdate) -> float:  # E m / n
        if one.work is not None:  # which nodes of a deployment report
            return epochs * one.num_samples / max(1, one.work)
        return epochs * -(-one.num_samples // batch_size) / max(1, one.steps)

    def length(one: LocalUpdate) -> float:  # |Δ|
        return math.sqrt(sum(float(m.double().square().sum()) for m in one.params.values()))

    def merge(state: ServerState, updates: Updates) -> ServerState:
        known = [(length(one), missed(one)) for one in updates]
        whole = [length for length, times in known if times <= 1]
        kept = {"reach": torch.tensor(median(whole), dtype=torch.float64)} if whole else {}
        tensors = {**state.tensors, **kept}
        reach = float(tensors.get("reach", median(length for length, _ in known)))
        factors = (max(1.0, min(times, reach / (length or 1.0))) for length, times in known)
        weights = [weigh(one) * own for one, own in zip(updates, factors, strict=True)]
        params = moved(state.params, summed(updates, weights), 1 / sum(map(weigh, updates)))
        return replace(state, params=params, tensors=tensors)

    return Strategy(plan, all_at_once(merge, moves=True), keeps_deadline=True)


def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
    """Whole epochs, then a draw of what fits of one more."""
    whole, rest = divmod(capacity(client, deadline), client.num_samples)
    if whole >= epochs:
        return LocalPlan((Phase(epochs),), Path.FULL)
    drawn = Phase(1, CoresetSpec(rest, "uniform-plain", NONE))
    phases = (Phase(whole),) * (whole > 0) + (drawn,) * (rest > 0)
    return LocalPlan(phases, Path.PARTIAL if whole else Path.RANDOM_SUBSET) if phases else SIT_OUT
