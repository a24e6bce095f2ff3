"""Stratified: a random subset in which every class has its share, drawn anew every round.

As ``random-subset``, but of the m_y samples of class y, n_y are drawn and weigh m_y / n_y each:

    Σ n_y = n = floor(c τ / E)        n_y by largest remainder of n m_y / m

Where there are fewer samples than classes, classes are left to chance.

Source: textbook sampling theory (Neyman 1934, proportional allocation). Defaults: none.
"""

from fedcore.server.method import Strategy
from fedcore.strategies.random_subset import on_subsets


def build(*, aggregation: str = "mean") -> Strategy:
    """The selector of the same name does it."""
    return on_subsets("stratified", aggregation)
