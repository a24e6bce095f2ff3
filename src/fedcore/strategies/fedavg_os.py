"""FedAvg-OS: more clients than needed are drawn, and the first K answers are merged.

Who has not answered by then is told to stop; that work is wasted, and the records count it.

    |S| = ceil(1.3 K)        w ← Σ p_i w_i over the first K of S to answer

Source: Bonawitz et al., Towards Federated Learning at Scale, MLSys 2019; 1.3 as in FedScale.
"""

import math

from fedcore.server.merge import aggregation as by_name
from fedcore.server.method import Action, Pace, Strategy, after_answers
from fedcore.strategies.fedavg import build as fedavg
from fedcore.values import at_least


def build(
    *, aggregation: str = "mean", clients_per_round: int = 10, over_selection: float = 1.3
) -> Strategy:
    """K is ``clients_per_round``; ``over_selection`` times as many start."""
    at_least(1)("over_selection", over_selection)
    drawn = math.ceil(over_selection * clients_per_round - 1e-9)  # 1.1 · 10 is a bit above 11
    first = after_answers(clients_per_round, Action.MERGE_AND_CANCEL)
    return Strategy(fedavg().plan, by_name(aggregation), Pace(first, concurrency=drawn))
