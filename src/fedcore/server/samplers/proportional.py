"""Proportional: K draws with replacement, clients with more samples more often."""

from fedcore.server.method import Cohort, Draw, Sampler


def build() -> Sampler:
    """Client i with probability p^i = m^i / Σ m (Assumption "random sampling").

    A client drawn twice trains once, and its answer counts twice: its w_r^i is one quantity in
    the paper.
    """

    def draw(asked: Draw) -> Cohort:
        idle = asked.idle()
        if len(idle) == 0:
            return {}
        chances = asked.sizes.counts[idle].astype(float)
        drawn = asked.generator().choice(len(idle), size=asked.count, p=chances / chances.sum())
        return asked.cohort(idle[drawn].tolist())

    return Sampler(draw)
