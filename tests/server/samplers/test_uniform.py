from fedcore.server.method import Draw
from fedcore.server.samplers import uniform
from fedcore.sources.clients import ClientSizes


def cohort(sizes, count, version, seed=0):
    return uniform.build().draw(Draw(count, version, seed, ClientSizes.of(sizes), {}))


def test_draws_are_different_clients():
    sizes = dict.fromkeys(range(20), 1) | {0: 10_000}
    for version in range(50):
        drawn = cohort(sizes, 8, version)
        assert len(drawn) == 8
        assert set(drawn.values()) == {1}


def test_everybody_is_drawn_when_there_are_too_few():
    assert set(cohort({0: 10, 1: 30, 2: 60}, 10, 1)) == {0, 1, 2}
