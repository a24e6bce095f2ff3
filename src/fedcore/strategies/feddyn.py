"""FedDyn: each client's objective is bent so that all agree at the common optimum.

h_i is a client's gradient where its last job ended, and h the mean of h_i over all N clients. With
one client and exact local solves, the client's models are proximal-point steps.

    w_i = argmin f_i(w) - <h_i, w> + α/2 |w - w^t|²        h_i ← h_i - α (w_i - w^t)
    h ← h - α/N Σ (w_i - w^t)        w ← mean w_i - h/α

Source: Acar et al., ICLR 2021; their code divides α by a client's share of all samples.
"""

from collections.abc import Callable
from dataclasses import replace

from fedcore.server.merge import Updates, all_at_once, moved, summed
from fedcore.server.method import Strategy
from fedcore.server.state import ServerState
from fedcore.strategies._local import NONE, Options, fleet_size, working_as
from fedcore.types import ClientId, Params
from fedcore.values import above_zero


def build(
    local: str = "fedavg",
    *,
    dyn_alpha: float = 0.01,
    step_size: Callable[[int], float] = lambda version: 0.01,
    options: Options = NONE,
) -> Strategy:
    """Plans are those of ``local``, with the pull α ``dyn_alpha``."""
    above_zero("dyn_alpha", dyn_alpha)
    num_clients = fleet_size("feddyn", options)

    def shift(state: ServerState, client: ClientId) -> Params | None:
        return moved({}, state.clients.get(client, {}), -1.0) or None

    def merge(state: ServerState, updates: Updates) -> ServerState:
        known = dict(state.clients)
        if step_size(state.version) == 0:  # a schedule has ended: h/α would still move the model
            return state
        for one in updates:
            known[one.client_id] = moved(known.get(one.client_id, {}), one.params, -dyn_alpha)
        common = moved(state.tensors, summed(updates, [-dyn_alpha / num_clients] * len(updates)))
        drawn = sum(one.copies for one in updates)
        mean = summed(updates, [one.copies / drawn for one in updates])
        params = moved(state.params, moved(mean, common, -1 / dyn_alpha))
        return replace(state, params=params, tensors=common, clients=known)

    clients = working_as(local, options, dyn_alpha)
    return replace(clients, merge=all_at_once(merge, moves=True), shift=shift)
