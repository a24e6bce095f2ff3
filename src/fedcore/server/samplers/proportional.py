"""Proportional: K draws with replacement, clients with more samples more often."""

from fedcore.server.method import Cohort, Draw, Sampler


def build() -> Sampler:
    """Client i with p^i = m^i / Σ m; one drawn twice trains once and counts twice."""

    def draw(asked: Draw) -> Cohort:
        idle = asked.idle()
        if len(idle) == 0:
            return {}
        chances = asked.sizes.counts[idle].astype(float)
        drawn = asked.generator().choice(len(idle), size=asked.count, p=chances / chances.sum())
        return asked.cohort(idle[drawn].tolist())

    return Sampler(draw)
