"""Uniform: K different clients, all equally likely."""

from __future__ import annotations

from fedcore.server.method import Cohort, Draw, Sampler


def build() -> Sampler:
    """Without replacement; everybody where there are fewer than K."""

    def draw(asked: Draw) -> Cohort:
        idle = asked.idle()
        if len(idle) == 0:
            return {}
        size = min(asked.count, len(idle))
        drawn = asked.generator().choice(len(idle), size, replace=False)
        return asked.cohort(idle[drawn].tolist())

    return Sampler(draw)
