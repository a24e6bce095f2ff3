"""FedProx: as many whole epochs as fit, pulled towards the round's global model.

    f_i(w) + μ/2 |w - w^t|² for min(E, floor(c_i τ / m_i)) epochs        w ← Σ p_i w_i

Source: Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020.
"""

from fedcore.deadline import capacity, caught_up
from fedcore.server.merge import aggregation as by_name
from fedcore.server.method import Strategy
from fedcore.types import SIT_OUT, ClientProfile, LocalPlan, Phase, Way


def build(*, aggregation: str = "mean", fedprox_mu: float = 0.1, catch_up: float = 1.0) -> Strategy:
    """The paper's baseline c); ``catch_up``, which is not theirs, lets steps of the slow grow."""

    def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        affordable = min(epochs, capacity(client, deadline) // client.num_samples)
        if affordable == 0:
            return SIT_OUT
        path = Way.FULL if affordable == epochs else Way.PARTIAL
        own = LocalPlan((Phase(affordable),), path, prox_mu=fedprox_mu)
        return caught_up(own, client.num_samples, epochs, catch_up)

    return Strategy(plan, by_name(aggregation), keeps_deadline=True)
