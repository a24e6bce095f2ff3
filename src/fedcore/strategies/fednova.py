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
from functools import partial
from typing import Any

from fedcore.server.merge import AGGREGATIONS, RunningMoves, moved
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
    share_of = AGGREGATIONS[aggregation]

    def length(one: LocalUpdate) -> float:  # a_i
        if pull := step_size(one.base_version) * nova_mu:
            return (1 - (1 - pull) ** one.steps) / pull
        # The sum without its terms: how many there are is for a client to say.
        return (one.steps - momentum * (1 - momentum**one.steps) / (1 - momentum)) / (1 - momentum)

    def weigh(one: LocalUpdate) -> tuple[float, float, float]:
        share, own = share_of(one), length(one)
        return share / own, share, share * own

    def after(state: ServerState, sums: Any, _: Any, total: float, far: float) -> ServerState:
        moves = {n: (value / total).to(state.params[n].dtype) for n, value in sums.items()}
        return replace(state, params=moved(state.params, moves, far / total))

    clients = working_as(local, options, nova_mu, by_steps=True)
    return replace(clients, merge=partial(RunningMoves, weigh, after))
