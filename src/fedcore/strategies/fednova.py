"""FedNova: what an answer moved is divided by how many steps moved it.

Clients that take more steps pull a plain mean towards their own optimum. FedNova averages moves
per step, and goes as far as the mean number of steps. a_i is the sum of the weights that the
gradients of τ_i local steps have in w_i - w, and Σ p_i = 1 over those who answer.

    w ← w + (Σ p_i a_i) Σ p_i (w_i - w) / a_i        SGD: a_i = τ_i
    momentum ρ: a_i = Σ_{k=1..τ_i} (1 - ρ^k) / (1 - ρ)        prox: a_i = (1 - (1 - ημ)^τ_i) / (ημ)

Source: Wang et al., NeurIPS 2020; with a prox their code has Σ p_i τ_i in place of Σ p_i a_i.
"""

from collections.abc import Callable
from dataclasses import replace

from fedcore.server.merge import AGGREGATIONS, Updates, all_at_once, moved, summed
from fedcore.server.method import Strategy
from fedcore.server.state import ServerState
from fedcore.strategies._local import NONE, Options, refuse, working_as
from fedcore.types import LocalUpdate


def build(
    local: str = "partial",
    *,
    aggregation: str = "mean",
    nova_mu: float = 0.0,
    momentum: float = 0.0,
    step_size: Callable[[int], float] = lambda version: 0.01,
    options: Options = NONE,
) -> Strategy:
    """Plans are those of ``local``, with the pull μ ``nova_mu``."""
    refuse("fednova", options, "optimiser", "clip_norm", *["momentum"] * (nova_mu > 0))
    weigh = AGGREGATIONS[aggregation]

    def length(one: LocalUpdate) -> float:  # a_i
        if pull := step_size(one.base_version) * nova_mu:
            return (1 - (1 - pull) ** one.steps) / pull
        return sum((1 - momentum**k) / (1 - momentum) for k in range(1, one.steps + 1))

    def merge(state: ServerState, updates: Updates) -> ServerState:
        total = sum(map(weigh, updates))
        far = sum(weigh(one) * length(one) for one in updates) / total
        moves = summed(updates, [weigh(one) / length(one) / total for one in updates])
        return replace(state, params=moved(state.params, moves, far))

    return replace(working_as(local, options, nova_mu), merge=all_at_once(merge, moves=True))
