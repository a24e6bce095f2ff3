"""Two clients by hand: 10 samples at 10 a second, 40 at 5; E = 2, a model of 100 bytes."""

import math

import pytest

from fedcore.config import resolve
from fedcore.sim.outlook import outlook
from fedcore.sim.world import build_strategy
from fedcore.types import ClientProfile

FAST, SLOW = ClientProfile(10, 10.0, 100.0, 100.0), ClientProfile(40, 5.0, 100.0, 100.0)


def look(deadline, **options):
    given = {"epochs": 2, "clients_per_round": 1, "selection": "uniform", **options}
    experiment = resolve(given, lambda benchmark, preset: {})
    plan = build_strategy("fedcore", experiment, "last-layer-input").plan
    return outlook(deadline, 1.0, [FAST, SLOW], plan, experiment, 100)


def length(found):
    return 3600 / found.rounds_per_hour


def spent(found):
    return [found.sending, found.on_all, found.on_coresets, found.waiting]


def test_a_round_of_one_client_in_parts():
    """12 s: 2 of sending, 10 of work; the slow one has 50 samples' time: 40, then a coreset of 10.

    The fast one needs 20 samples, 2 s, and is done after 4; drawn alone, nobody waits.
    """
    found = look(12.0)
    assert (found.slow, found.coresets) == (0.5, (10.0, 10.0, 10.0))
    assert length(found) == pytest.approx((4 + 12) / 2)
    assert spent(found) == pytest.approx([2 / 8, (2 + 8) / 2 / 8, (0 + 2) / 2 / 8, 0])
    worth = (1 + math.sqrt(50 / 80)) / 2
    assert found.time == pytest.approx(8 / worth)


def test_the_longest_of_several_draws_makes_the_round():
    """Of 3 draws with replacement the slow one is missed with probability 1/8."""
    found = look(12.0, clients_per_round=3)
    assert length(found) == pytest.approx(4 / 8 + 12 * 7 / 8)
    assert found.waiting == pytest.approx(1 - 8 / length(found))


def test_clients_are_drawn_by_size_where_the_sampler_does():
    assert length(look(12.0, selection="proportional")) == pytest.approx(0.2 * 4 + 0.8 * 12)


def test_larger_steps_are_worth_as_many():
    assert look(12.0, catch_up=3.0).time == pytest.approx(8.0)


def test_a_deadline_in_which_nobody_can_send_is_worth_nothing():
    found = look(1.0)
    assert (found.slow, found.coresets, found.time) == (1.0, (), math.inf)
