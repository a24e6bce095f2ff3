"""FADAS: buffered answers drive an Adam that slows down when the oldest of them is old.

As FedBuff, without weights for staleness: D is the mean of what the answers of a buffer moved,
each from the model it began with, and s the age of the oldest.

    m ← β1 m + (1 - β1) D        v ← β2 v + (1 - β2) D²        v̂ ← max(v̂, v)
    w ← w + η_s m / (√v̂ + ε)        η_s = η where s ≤ s_c, else min(η, 1/s); in their code η/s

Source: Wang et al., FADAS: Towards Federated Adaptive Asynchronous Optimization, ICML 2024.
"""

from dataclasses import replace

import torch

from fedcore.server.merge import Updates, all_at_once, moved, summed
from fedcore.server.method import Pace, Strategy, after_answers
from fedcore.server.state import ServerState
from fedcore.strategies._local import NONE, Options, working_as


def build(
    local: str = "fedavg",
    *,
    buffer: int = 5,
    fadas_rate: float = 1e-3,
    longest_delay: int = 1,
    beta1: float = 0.9,
    beta2: float = 0.99,
    options: Options = NONE,
) -> Strategy:
    """B is ``buffer``, η ``fadas_rate``, s_c ``longest_delay``; ε is 1e-8."""

    def merge(state: ServerState, updates: Updates) -> ServerState:
        count, moves, tensors = sum(one.copies for one in updates), {}, dict(state.tensors)
        age = state.version - min(one.base_version for one in updates)
        step = min(fadas_rate, 1 / age) if age > longest_delay else fadas_rate
        for name, change in summed(updates, [one.copies / count for one in updates]).items():
            keys = [f"{kind}/{name}" for kind in ("m", "v", "most")]
            m, v, most = (state.tensors.get(key, torch.zeros_like(change)) for key in keys)
            m, v = beta1 * m + (1 - beta1) * change, beta2 * v + (1 - beta2) * change.square()
            most = torch.maximum(most, v)
            tensors |= dict(zip(keys, (m, v, most), strict=True))
            moves[name] = m / (most.sqrt() + 1e-8)
        return replace(state, params=moved(state.params, moves, step), tensors=tensors)

    pace = Pace(after_answers(buffer), refill_at_once=True)
    return replace(working_as(local, options), merge=all_at_once(merge, moves=True), pace=pace)
