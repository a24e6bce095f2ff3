import numpy as np

from fedcore.server.method import Draw
from fedcore.server.samplers import uniform_by_round
from fedcore.sources.clients import ClientSizes


def cohort(sizes, count, version, seed=0):
    return uniform_by_round.build().draw(Draw(count, version, seed, ClientSizes.of(sizes), {}))


def test_the_draw_is_that_of_numpys_legacy_generator_whatever_the_seed():
    """Round 1, which starts from version 0: RandomState(1).permutation(30), as NumPy has it."""
    expected = np.random.RandomState(1).permutation(30)[:10].tolist()
    assert list(cohort(dict.fromkeys(range(30), 1), 10, 0, seed=77)) == expected
