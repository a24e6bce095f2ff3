"""Uniform: K different clients, all equally likely."""

from fedcore.server.method import Cohort, Draw, Sampler


def build() -> Sampler:
    """Without replacement; everybody where there are fewer than K."""

    def draw(asked: Draw) -> Cohort:
        idle = asked.idle()
        drawn = asked.generator().choice(len(idle), min(asked.count, len(idle)), replace=False)
        return asked.cohort(idle[drawn].tolist())

    return Sampler(draw)
