"""Server optimisers: D, what any strategy's merge would add to the model, is a gradient."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from fedcore.server.merge import moved
from fedcore.server.method import Merging, Strategy
from fedcore.server.state import ServerState
from fedcore.strategies.fedavg import build as fedavg
from fedcore.types import LocalUpdate, Params

UNDER = "under/"  # before the names of the strategy's own tensors, which are all that it sees


class _Optimised(NamedTuple):
    add: Callable[[LocalUpdate, Params], None]
    finish: Callable[[], ServerState]


def build_around(
    second_moment: Callable[[Tensor, Tensor, float], Tensor] | None,  # v, D², β2 -> v
    *,
    aggregation: str = "mean",
    server_rate: float = 0.1,
    beta1: float = 0.9,
    beta2: float = 0.99,
    adaptivity: float = 1e-3,
    around: Strategy | None = None,
) -> Strategy:
    """η is ``server_rate``, a ``adaptivity``; without ``second_moment``, m alone is the move."""
    inner = around or fedavg(aggregation=aggregation)

    def own(state: ServerState) -> ServerState:
        kept = {n.removeprefix(UNDER): v for n, v in state.tensors.items() if n.startswith(UNDER)}
        return replace(state, tensors=kept)

    def step(before: ServerState, after: ServerState) -> ServerState:
        if after.params is before.params:  # no answers
            return before
        tensors, moves = {UNDER + name: value for name, value in after.tensors.items()}, {}
        for name, value in before.params.items():
            change = after.params[name].double() - value.double()
            m = beta1 * before.tensors.get(f"m/{name}", torch.zeros_like(change))
            tensors[f"m/{name}"] = moves[name] = m + change
            if second_moment is not None:
                v = before.tensors.get(f"v/{name}", torch.full_like(change, adaptivity**2))
                tensors[f"v/{name}"] = v = second_moment(v, change.square(), beta2)
                tensors[f"m/{name}"] = m = m + (1 - beta1) * change
                moves[name] = m / (v.sqrt() + adaptivity)
        return replace(after, params=moved(before.params, moves, server_rate), tensors=tensors)

    def merge(state: ServerState) -> Merging:
        merging = inner.merge(own(state))
        return _Optimised(merging.add, lambda: step(state, merging.finish()))

    shift, plans = inner.shift, inner.by_cohort
    shifted = shift and (lambda state, client: shift(own(state), client))
    with_own = plans and (lambda state, cohort: plans(own(state), cohort))
    return replace(inner, merge=merge, by_cohort=with_own, shift=shifted)
