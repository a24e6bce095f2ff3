"""FedAsync: every answer is mixed into the model as it comes, less the staler it is.

Clients train from the newest model, pulled towards it, and are replaced at once; an answer is
mixed in once, however often its client was drawn. With s the merges since its client began:

    f_i(w) + ρ/2 |w - w^v|²        w ← (1 - α_s) w + α_s w_i        α_s = α · one of
    constant: 1        polynomial: (s + 1)^-a        hinge: 1 where s ≤ b, else 1 / (a (s - b) + 1)

Source: Xie et al., Asynchronous Federated Optimization, 2019 (arXiv 1903.03934).
"""

from dataclasses import replace

from fedcore.server.merge import Updates, all_at_once, moved
from fedcore.server.method import Pace, Strategy, after_answers
from fedcore.server.state import ServerState
from fedcore.strategies._local import NONE, Options, working_as
from fedcore.values import one_of


def build(
    local: str = "fedavg",
    *,
    mixing: float = 0.6,
    staleness: str = "polynomial",
    staleness_power: float = 0.5,
    hinge_slope: float = 10.0,
    hinge_from: float = 4.0,
    rho: float = 0.005,
    options: Options = NONE,
) -> Strategy:
    """α is ``mixing``, ρ ``rho``, a ``staleness_power`` or ``hinge_slope``, b ``hinge_from``."""
    one_of("constant", "polynomial", "hinge")("staleness", staleness)

    def by_age(age: int) -> float:
        if staleness == "polynomial":
            return float((age + 1) ** -staleness_power)
        late = max(0.0, age - hinge_from) if staleness == "hinge" else 0.0
        return 1 / (hinge_slope * late + 1)

    def merge(state: ServerState, updates: Updates) -> ServerState:
        (one,) = updates
        share = mixing * by_age(state.version - one.base_version)
        kept = moved(state.params, state.params, -share)
        return replace(state, params=moved(kept, one.params, share))

    pace = Pace(after_answers(1), refill_at_once=True)
    return replace(working_as(local, options, rho), merge=all_at_once(merge), pace=pace)
