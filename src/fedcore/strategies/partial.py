"""Partial work: FedAvg with as many whole epochs as fit before the deadline.

For whom not one epoch fits sits the round out. It is FedProx without the pull.

    E_i = min(E, floor(c_i τ / m_i))        w ← Σ p_i w_i

Source: Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020, at μ = 0, and with
E_i by the clock; they draw it from 1 to E - 1.
"""

from fedcore.server.method import Strategy
from fedcore.strategies.fedprox import build as fedprox


def build(*, aggregation: str = "mean") -> Strategy:
    """Without a pull, and without larger steps for the slow."""
    return fedprox(aggregation=aggregation, fedprox_mu=0.0)
