"""Tempo: who is slow trains on as much as fits, drawn anew, and the merge makes up for its steps.

Whole epochs, then a draw of what fits. a_i are the steps that a client took, ā those of E epochs on
everything, in the mean over all who answer; Δ_i is how far it moved.

    n_i = min(E m_i, c_i τ)        φ_i = √(ā / a_i)        U = Σ p_i φ_i Δ_i
    w ← w + U min(1, max |Δ_i| / |U|)

φ = 1 would be FedAvg, where more steps pull harder, and φ = mean a / a_i FedNova, where few steps
are stretched as if they led straight on; the root is between. No merge goes further than its
longest answer, whatever the deadline, and there is nothing to set by hand.

Source: ours, FedCore with what docs/choosing.md measures (docs/adr/0018).
"""

import math
from dataclasses import replace

from fedcore.coreset.proxies import NONE
from fedcore.deadline import capacity
from fedcore.server.merge import AGGREGATIONS, Updates, all_at_once, moved, summed
from fedcore.server.method import Strategy
from fedcore.server.state import ServerState
from fedcore.types import SIT_OUT, ClientProfile, CoresetSpec, LocalPlan, LocalUpdate, Phase, Way


def build(*, aggregation: str = "mean", epochs: int = 10, batch_size: int = 8) -> Strategy:
    """E and the samples of a step say how many steps a whole round has."""
    weigh = AGGREGATIONS[aggregation]

    def taken(one: LocalUpdate) -> tuple[float, float]:  # a, and what E epochs have
        if one.work is not None:  # nodes of a deployment report samples
            return max(1, one.work), epochs * one.num_samples
        return max(1, one.steps), epochs * -(-one.num_samples // batch_size)

    def merge(state: ServerState, updates: Updates) -> ServerState:
        steps, shares = [taken(one) for one in updates], [weigh(one) for one in updates]
        pairs, total = list(zip(shares, steps, strict=True)), sum(shares)
        far = sum(share * whole for share, (_, whole) in pairs) / total
        move = summed(updates, [share / total * (far / own) ** 0.5 for share, (own, _) in pairs])
        length = _length(replace(updates[0], params=move))
        bound = min(1.0, max(map(_length, updates)) / (length or 1.0))
        return replace(state, params=moved(state.params, move, bound))

    return Strategy(plan, all_at_once(merge, moves=True), keeps_deadline=True)


def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
    """Whole epochs, then a draw of what fits of one more."""
    whole, rest = divmod(capacity(client, deadline), client.num_samples)
    if whole >= epochs:
        return LocalPlan((Phase(epochs),), Way.FULL)
    drawn = Phase(1, CoresetSpec(rest, "uniform-plain", NONE))
    phases = (Phase(whole),) * (whole > 0) + (drawn,) * (rest > 0)
    return LocalPlan(phases, Way.PARTIAL if whole else Way.RANDOM_SUBSET) if phases else SIT_OUT


def _length(one: LocalUpdate) -> float:  # |Δ|
    return math.sqrt(sum(float(move.double().square().sum()) for move in one.params.values()))
