"""SCAFFOLD: gradients corrected by how a client's differ from everybody's.

    fedcore compare --strategies fedavg,examples/scaffold_strategy.py --selection uniform \
        --out runs/scaffold

Karimireddy et al. 2020, option II, with each client's own number of steps K_i:
y <- y - η (g_i(y) - c_i + c);  c_i+ = c_i - c + (x - y_i) / (K_i η);
x <- x + η_g K̄ mean_i (y_i - x) / K_i;  c <- c + |S| / N mean_i (c_i+ - c_i).
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from fedcore.server.merge import all_at_once
from fedcore.server.method import Strategy
from fedcore.server.state import ServerState
from fedcore.strategies.fedavg import build as fedavg
from fedcore.types import ClientId, LocalUpdate, Params


def build(
    *, learning_rate: float = 0.01, num_clients: int = 1, server_rate: float = 1.0
) -> Strategy:
    """The state keeps c by name, and c_i of every client that has answered once."""

    def control(state: ServerState, client: ClientId | None = None) -> Params:
        zeros = {name: torch.zeros_like(value) for name, value in state.params.items()}
        return (state.tensors if client is None else state.clients.get(client)) or zeros

    def shift(state: ServerState, client: ClientId) -> Params:
        own, common = control(state, client), control(state)
        return {name: common[name] - own[name] for name in common}

    def merge(state: ServerState, updates: Sequence[LocalUpdate]) -> ServerState:
        x, common = state.params, control(state)
        steps = [update.steps for update in updates]
        mean_steps = sum(steps) / len(steps)
        moves = {name: torch.zeros_like(value) for name, value in x.items()}
        change = {name: torch.zeros_like(value) for name, value in x.items()}
        known = dict(state.clients)
        for update, count in zip(updates, steps, strict=True):
            per_step = {n: (update.params[n] - v) / count for n, v in x.items()}
            # (x - y) / (K η) is the client's mean gradient, shift included: c_i+ = it - shift
            own = shift(state, update.client_id)
            known[update.client_id] = {n: -per_step[n] / learning_rate - own[n] for n in x}
            before = control(state, update.client_id)
            for name in x:
                moves[name] += mean_steps * per_step[name] / len(updates)
                change[name] += (known[update.client_id][name] - before[name]) / num_clients
        return replace(
            state,
            params={name: value + server_rate * moves[name] for name, value in x.items()},
            tensors={name: common[name] + change[name] for name in x},
            clients=known,
        )

    return Strategy(fedavg().plan, all_at_once(merge), shift=shift)
