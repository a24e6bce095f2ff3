import numpy as np
import pytest

from fedcore.server.method import Draw
from fedcore.server.samplers import proportional
from fedcore.sources.clients import ClientSizes


def cohort(sizes, count, version, seed=0):
    return proportional.build().draw(Draw(count, version, seed, ClientSizes.of(sizes), {}))


def test_draws_follow_the_share_of_samples_and_repeat():
    """p = 0.1, 0.3, 0.6: over 4,000 rounds of 5, standard error below 0.004."""
    counts = np.zeros(3)
    for version in range(4000):
        for client, copies in cohort({0: 10, 1: 30, 2: 60}, 5, version).items():
            counts[client] += copies
    assert counts.sum() == 4000 * 5
    assert counts / counts.sum() == pytest.approx([0.1, 0.3, 0.6], abs=0.015)
