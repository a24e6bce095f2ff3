"""Uniform by round: the same cohorts whatever the seed, as in the authors' code."""

import numpy as np

from fedcore.server.method import Cohort, Draw, Sampler


def build() -> Sampler:
    """K different clients by NumPy's legacy generator, seeded with the number of the round."""

    def draw(asked: Draw) -> Cohort:
        idle = asked.idle()
        name = [asked.version + 1, asked.again] if asked.again else asked.version + 1
        places = np.random.RandomState(name).permutation(len(idle))[: asked.count]
        return asked.cohort(idle[places].tolist())

    return Sampler(draw)
