"""CA2FL: buffered answers, corrected by what the clients that did not answer moved last.

The server remembers h_i, what each client moved last from the model it began with, zero for who
never answered, and h, their mean over all N clients. A buffer brings only what is new.

    Δ_i = w_i - w^v        b ← b + Δ_i - h_i        h_i ← Δ_i        for every answer
    w ← w + η_g (h + b / B)        h ← mean h_i        for every buffer of B answers

Source: Wang et al., Asynchronous Federated Learning with Cached Update Calibration, ICLR 2024.
"""

from dataclasses import replace

from fedcore.server.merge import Updates, all_at_once, moved, summed
from fedcore.server.method import Pace, Strategy, after_answers
from fedcore.server.state import ServerState
from fedcore.strategies._local import NONE, Options, fleet_size, working_as


def build(
    local: str = "fedavg", *, buffer: int = 10, global_rate: float = 1.0, options: Options = NONE
) -> Strategy:
    """B is ``buffer``, η_g ``global_rate``."""
    num_clients = fleet_size("ca2fl", options)

    def merge(state: ServerState, updates: Updates) -> ServerState:
        known, changes = dict(state.clients), []
        for one in updates:
            change = moved(one.params, known.get(one.client_id, {}), -1.0)
            changes.append(replace(one, params=change))
            known[one.client_id] = one.params
        drawn = sum(one.copies for one in updates)
        new = summed(changes, [one.copies * global_rate / drawn for one in updates])
        params = moved(state.params, moved(new, state.tensors, global_rate))
        mean = moved(state.tensors, summed(changes, [1 / num_clients] * len(changes)))
        return replace(state, params=params, tensors=mean, clients=known)

    pace = Pace(after_answers(buffer), refill_at_once=True)
    return replace(working_as(local, options), merge=all_at_once(merge, moves=True), pace=pace)
