"""What every sampler must do, whatever its name; the examples too, for they get copied."""

import pathlib

import pytest

from fedcore import plugins
from fedcore.server.method import Draw, Sampler
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientProfile

EXAMPLES = sorted((pathlib.Path(__file__).parents[2] / "examples").glob("*_sampler.py"))
NAMES = [*plugins.names("sampler"), *map(str, EXAMPLES)]
SIZES = ClientSizes.of(dict.fromkeys(range(100, 130), 5))  # ids that are not places
PROFILES = {client: ClientProfile(5, 1.0) for client in SIZES}

pytestmark = pytest.mark.parametrize("name", NAMES)


def cohort(name, count, version, seed=0, **known):
    sampler = plugins.load("sampler", name).build()
    assert isinstance(sampler, Sampler)
    return sampler.draw(Draw(count, version, seed, SIZES, PROFILES, **known))


def test_as_many_as_asked_for_are_drawn(name):
    for version in range(20):
        assert sum(cohort(name, 7, version).values()) == 7


def test_who_is_busy_is_not_drawn(name):
    busy = frozenset(range(100, 125))
    for version in range(30):
        drawn = cohort(name, 3, version, busy=busy)
        assert 1 <= len(drawn) <= 3
        assert not busy & set(drawn)
    assert cohort(name, 3, 0, busy=frozenset(SIZES)) == {}


def test_versions_and_repeated_draws_differ_and_equal_ones_do_not(name):
    draws = [tuple(cohort(name, 10, v, again=a)) for v, a in ((1, 0), (2, 0), (1, 1), (1, 0))]
    assert len(set(draws)) == 3
    assert draws[0] == draws[-1]
