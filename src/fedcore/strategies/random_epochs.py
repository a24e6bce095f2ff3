"""Random epochs: who is slow trains every epoch on other samples, as many as fit.

As ``random-subset``, but drawn anew for each of the E epochs, so that more of a client's samples
are met in a round, each of them less often:

    n = floor(c τ / E)        weight m / n each

Source: Okanovic et al., "Repeated Random Sampling for Minimizing the Time-to-Accuracy of Learning",
ICLR 2024, which does so without clients. Defaults: none.
"""

from fedcore.server.method import Strategy
from fedcore.strategies.random_subset import on_subsets


def build(*, aggregation: str = "mean") -> Strategy:
    """One phase an epoch, so that each has a draw of its own."""
    return on_subsets("uniform-plain", aggregation, redraw=True)
