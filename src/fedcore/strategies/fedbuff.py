"""FedBuff: the server keeps K clients busy and merges whenever enough answers are there.

Who answers is replaced at once. An answer counts by what it moved from the model it began with,
version v, and less the older that is when it comes in at version t.

    Δ_i = w_i - w^v        w ← w + η_g / B Σ_i Δ_i / √(1 + t - v) over the B answers of a buffer

Source: Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, AISTATS 2022.
"""

from dataclasses import replace

from fedcore.server.merge import Updates, all_at_once, moved, summed
from fedcore.server.method import Pace, Strategy, after_answers
from fedcore.server.state import ServerState
from fedcore.strategies._local import NONE, Options, working_as


def build(
    local: str = "fedavg",
    *,
    buffer: int = 10,
    global_rate: float = 1.0,
    refill_at_once: bool = True,
    options: Options = NONE,
) -> Strategy:
    """B is ``buffer``, η_g ``global_rate``."""

    def merge(state: ServerState, updates: Updates) -> ServerState:
        ages = [state.version - one.base_version for one in updates]
        weights = [u.copies / (1 + age) ** 0.5 for u, age in zip(updates, ages, strict=True)]
        step = global_rate / sum(one.copies for one in updates)
        return replace(state, params=moved(state.params, summed(updates, weights), step))

    pace = Pace(after_answers(buffer), refill_at_once)
    return replace(working_as(local, options), merge=all_at_once(merge, moves=True), pace=pace)
