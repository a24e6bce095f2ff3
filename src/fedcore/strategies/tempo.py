"""Tempo: who is slow trains on as much as fits, drawn anew, and merges go as far as they lead on.

Of a client, a are the steps taken, ā those of E epochs on everything; Δ is how far it moved.

    n_i = min(E m_i, c_i τ)        V = Σ p_i Δ_i / √a_i / Σ p_i / √a_i
    γ ← γ 2^cos(V, last V), 1 ≤ γ ≤ mean ā / mean a        w ← w + V min(γ, max |Δ_i| / |V|)

γ begins with the mean √(mean ā / a). Moves that lead on make the next longer, those that turn back
shorter: V · last V is how the loss falls with γ. No merge goes further than its longest answer.

Source: ours, FedCore with what docs/choosing.md measures (docs/adr/0018).
"""

from dataclasses import replace
from functools import partial
from typing import Any

from fedcore.coreset.proxies import NONE
from fedcore.deadline import capacity
from fedcore.server.merge import AGGREGATIONS, RunningMoves, cosine, length, moved
from fedcore.server.method import Strategy
from fedcore.server.state import ServerState
from fedcore.types import SIT_OUT, ClientProfile, CoresetSpec, LocalPlan, LocalUpdate, Phase, Way

STRETCH, LAST = "stretch", "last/"  # in the state: γ, and V by the names of its parameters


def build(*, aggregation: str = "mean", epochs: int = 10, batch_size: int = 8) -> Strategy:
    """E and the samples of a step say how many steps a whole round has."""
    share_of = AGGREGATIONS[aggregation]

    def weigh(one: LocalUpdate) -> tuple[float, ...]:
        share, own, whole = share_of(one), one.steps, -(-one.num_samples // batch_size)
        if one.work is not None:  # nodes of a deployment report samples
            own, whole = one.work, one.num_samples
        weight = share / max(1, own) ** 0.5
        return weight, weight, share, share * max(1, own), share * epochs * whole

    def after(state: ServerState, sums: Any, longest: Any, *told: float) -> ServerState:
        (total, shares, own, whole), now, kept = told, state.params, state.tensors
        move = {n: (value / total).to(now[n].dtype) for n, value in sums.items()}
        stretch = total * (whole / shares) ** 0.5 / shares
        if kept:
            stretch = kept[STRETCH].item() * 2 ** cosine(move, {n: kept[LAST + n] for n in move})
        stretch = max(1.0, min(stretch, whole / own))
        further = moved(now, move, min(stretch, float(longest / (length(move) or 1.0))))
        known = {LAST + n: v for n, v in move.items()} | {STRETCH: longest.new_tensor(stretch)}
        return replace(state, params=further, tensors=known)

    return Strategy(plan, partial(RunningMoves, weigh, after), keeps_deadline=True)


def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
    """Whole epochs, then a draw of what fits of one more."""
    whole, rest = divmod(capacity(client, deadline), client.num_samples)
    if whole >= epochs:
        return LocalPlan((Phase(epochs),), Way.FULL)
    drawn = Phase(1, CoresetSpec(rest, "uniform-plain", NONE))
    phases = (Phase(whole),) * (whole > 0) + (drawn,) * (rest > 0)
    return LocalPlan(phases, Way.PARTIAL if whole else Way.RANDOM_SUBSET) if phases else SIT_OUT
