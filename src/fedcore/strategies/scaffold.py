"""SCAFFOLD: gradients corrected by how a client's differ from everybody's.

c is the mean gradient of all N clients, c_i a client's own, both zero at first; K_i are its steps,
K̄ their mean. The original, option II, diverges where these differ; elsewhere this is it.

    y ← y - η (g_i(y) - c_i + c)        c_i⁺ = c_i - c + (x - y_i) / (K_i η)
    x ← x + η_g K̄ mean_i (y_i - x) / K_i        c ← c + 1/N Σ_i (c_i⁺ - c_i)

Source: Karimireddy et al., ICML 2020.
"""

from collections.abc import Callable
from dataclasses import replace

from fedcore.server.merge import Updates, all_at_once, moved, summed
from fedcore.server.method import Strategy
from fedcore.server.state import ServerState
from fedcore.strategies._local import NONE, Options, fleet_size, refuse, working_as
from fedcore.types import ClientId, Params


def build(
    local: str = "fedavg",
    *,
    global_rate: float = 1.0,
    step_size: Callable[[int], float] = lambda version: 0.01,
    options: Options = NONE,
) -> Strategy:
    """Plans are those of ``local``, without a pull; η_g is ``global_rate``."""
    num_clients = fleet_size("scaffold", options)
    refuse("scaffold", options, "optimiser", "momentum", "clip_norm")

    def shift(state: ServerState, client: ClientId) -> Params | None:
        return moved(state.tensors, state.clients.get(client, {}), -1.0) or None

    def merge(state: ServerState, updates: Updates) -> ServerState:
        known, changes, eta = dict(state.clients), [], step_size(state.version)
        if eta == 0:  # a schedule has ended: nobody moved, and moves tell of no gradient
            return state
        for one in updates:
            # (x - y) / (K η) is the client's mean gradient, shift included: c_i+ = it - shift
            gradient = moved({}, one.params, -1 / (one.steps * eta))
            own = moved(gradient, shift(state, one.client_id) or {}, -1.0)
            changes.append(replace(one, params=moved(own, known.get(one.client_id, {}), -1.0)))
            known[one.client_id] = own
        common = moved(state.tensors, summed(changes, [1 / num_clients] * len(changes)))
        drawn = sum(one.copies for one in updates)
        mean_steps = sum(one.copies * one.steps for one in updates) / drawn
        moves = summed(updates, [one.copies / drawn / one.steps for one in updates])
        params = moved(state.params, moves, global_rate * mean_steps)
        return replace(state, params=params, tensors=common, clients=known)

    clients = working_as(local, options, 0.0, by_steps=True)
    return replace(clients, merge=all_at_once(merge, moves=True), shift=shift)
