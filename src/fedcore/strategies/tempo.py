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

from dataclasses import replace
from functools import partial
from typing import Any

from fedcore.coreset.proxies import NONE
from fedcore.deadline import capacity
from fedcore.server.merge import AGGREGATIONS, RunningMoves, length, moved
from fedcore.server.method import Strategy
from fedcore.server.state import ServerState
from fedcore.types import SIT_OUT, ClientProfile, CoresetSpec, LocalPlan, LocalUpdate, Phase, Way


def build(*, aggregation: str = "mean", epochs: int = 10, batch_size: int = 8) -> Strategy:
    """E and the samples of a step say how many steps a whole round has."""
    share_of = AGGREGATIONS[aggregation]

    def weigh(one: LocalUpdate) -> tuple[float, float, float]:
        share, own, whole = share_of(one), one.steps, -(-one.num_samples // batch_size)
        if one.work is not None:  # nodes of a deployment report samples
            own, whole = one.work, one.num_samples
        return share / max(1, own) ** 0.5, share, share * epochs * whole

    def after(state: ServerState, sums: Any, longest: Any, *told: float) -> ServerState:
        (total, far), now = told, state.params
        factor = (far / total) ** 0.5 / total
        move = {n: (factor * value).to(now[n].dtype) for n, value in sums.items()}
        bound = min(1.0, float(longest / (length(move) or 1.0)))
        return replace(state, params=moved(now, move, bound))

    return Strategy(plan, partial(RunningMoves, weigh, after), keeps_deadline=True)


def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
    """Whole epochs, then a draw of what fits of one more."""
    whole, rest = divmod(capacity(client, deadline), client.num_samples)
    if whole >= epochs:
        return LocalPlan((Phase(epochs),), Way.FULL)
    drawn = Phase(1, CoresetSpec(rest, "uniform-plain", NONE))
    phases = (Phase(whole),) * (whole > 0) + (drawn,) * (rest > 0)
    return LocalPlan(phases, Way.PARTIAL if whole else Way.RANDOM_SUBSET) if phases else SIT_OUT
