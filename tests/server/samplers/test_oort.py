"""Oort against its formulas, worked out by hand; without chance where ε is 0 and c is 1."""

import math
from dataclasses import replace

import pytest

from fedcore.errors import BadOption
from fedcore.server.method import Draw
from fedcore.server.samplers import oort
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientProfile, LocalUpdate

GREEDY = {"explore": 0.0, "explore_least": 0.0, "cut_off": 1.0}


def answer(client, rms, seconds=10.0, version=0, samples=10):
    return LocalUpdate(
        client,
        {},
        samples,
        base_version=version,
        loss_square_sum=4 * rms**2,
        loss_count=4,  # fewer than the client has: the mean is over those that were met
        seconds=seconds,
    )


def memory_of(sampler, answers, sizes):
    memory = {}
    for one in answers:
        memory = sampler.observe(memory, one, sizes)
    return memory


def drawn(options, answers, count=1, version=1, clients=None, profiles=None, draws=1):
    """Who was drawn in each of ``draws`` draws, after these answers."""
    clients = clients or len({one.client_id for one in answers})
    sizes = ClientSizes(range(clients), [10] * clients)
    profiles = profiles or dict.fromkeys(range(clients), ClientProfile(10, 1.0))
    sampler = oort.build(**options)
    memory = memory_of(sampler, answers, sizes)
    asked = (
        Draw(count, version, 0, sizes, profiles, again=again, memory=memory)
        for again in range(draws)
    )
    return [set(sampler.draw(one)) for one in asked]


def test_utility_is_samples_times_the_root_of_the_mean_square():
    """40 · 1 = 40 beats 10 · 3 = 30, and 10 · 5 = 50 beats both."""
    first = [answer(0, 3.0), answer(1, 1.0, samples=40)]
    assert drawn(GREEDY, first) == [{1}]
    assert drawn(GREEDY, [*first, answer(2, 5.0)]) == [{2}]


@pytest.mark.parametrize(("version", "expected"), [(1, 0), (99, 1)])
def test_who_has_not_answered_for_long_gains(version, expected):
    """Scaled U = 1, 0.9, 0. At R = 2 it is 1 + √(0.1 ln 2) against 0.9 + √(0.1 ln 2): client 0.

    At R = 100, where client 0 answered in round 99: 1 + √(0.1 ln 100 / 99) = 1.07 against
    0.9 + √(0.1 ln 100) = 1.58: client 1.
    """
    answers = [answer(0, 10.0, version=version - 1), answer(1, 9.0), answer(2, 0.0)]
    assert drawn({**GREEDY, "clip": 100.0}, answers, version=version) == [{expected}]


@pytest.mark.parametrize(("seconds", "expected"), [(130.0, 0), (150.0, 1)])
def test_the_penalty_is_the_square_of_how_much_longer_it_took(seconds, expected):
    """At R = 1 worth: U (T/t)², T = 100, (100/130)² = 0.59 > 0.5 > (100/150)² = 0.44."""
    answers = [answer(0, 10.0, seconds), answer(1, 5.0, 100.0), answer(2, 0.0, 100.0)]
    options = {**GREEDY, "clip": 100.0, "preferred": 50.0}
    assert drawn(options, answers, version=0) == [{expected}]


def test_slow_clients_do_not_look_fast():
    """Equal losses, one ten times as slow: it is the last that is drawn, not the first."""
    answers = [answer(0, 2.0, 1000.0), *(answer(client, 2.0, 100.0) for client in (1, 2, 3))]
    assert drawn(GREEDY, answers, count=3) == [{1, 2, 3}]


def test_utilities_are_cut_before_they_are_scaled():
    """U = 1000, 90, 80, ..., 10, 0. Cut at the median, 50, the six largest are one."""
    answers = [answer(0, 100.0), *(answer(c, 10.0 - c) for c in range(1, 11))]
    often = drawn({**GREEDY, "clip": 50.0}, answers, draws=100)
    assert set.union(*often) == {0, 1, 2, 3, 4, 5}
    assert drawn({**GREEDY, "clip": 100.0}, answers, draws=100) == [{0}] * 100


def test_only_who_is_near_the_cut_off_is_admitted():
    """At R = 1 worth is U: 1, 0.96, 0.94, 0; c = 0.95 of the first admits the second alone."""
    answers = [answer(c, rms) for c, rms in enumerate((100.0, 96.0, 94.0, 0.0))]
    options = {**GREEDY, "cut_off": 0.95, "clip": 100.0}
    often = drawn(options, answers, version=0, draws=100)
    assert set.union(*often) == {0, 1}
    two = drawn(options, answers, count=2, version=0, draws=100)  # 0.95 · 0.96 = 0.912
    assert set.union(*two) == {0, 1, 2}


@pytest.mark.parametrize(("version", "new"), [(0, 9), (10, 7), (100, 3)])
def test_the_share_of_new_clients_falls_to_its_least(version, new):
    """ε = 0.9 · 0.98^v: 9 of 10, then 0.735 · 10 = 7, and never below 3."""
    answers = [answer(client, 1.0) for client in range(20)]
    for cohort in drawn({}, answers, 10, version, clients=40, draws=20):
        assert len(cohort) == 10
        assert len(cohort - set(range(20))) == new


def test_nobody_new_leaves_all_to_who_is_known():
    answers = [answer(client, 1.0) for client in range(20)]
    assert all(len(cohort) == 10 for cohort in drawn({}, answers, 10, 0, draws=20))


def test_new_clients_are_drawn_by_size_and_by_speed():
    """t = 10, 20 and 100; T the median: chances 10, 20 and 10 · (20/100)² = 0.4."""
    sizes = ClientSizes(range(3), [10, 20, 10])
    profiles = {
        0: ClientProfile(10, 1.0),
        1: ClientProfile(20, 1.0),
        2: ClientProfile(10, 0.1),
    }
    sampler = oort.build(preferred=50.0)
    counts = [0, 0, 0]
    for version in range(4000):
        (client,) = sampler.draw(Draw(1, version, 0, sizes, profiles))
        counts[client] += 1
    expected = [10 / 30.4, 20 / 30.4, 0.4 / 30.4]
    assert [count / 4000 for count in counts] == pytest.approx(expected, abs=0.025)
    assert counts[2] < 100


def test_a_slow_link_is_slow_as_well():
    sizes = ClientSizes(range(4), [10] * 4)
    profiles = dict.fromkeys(range(4), ClientProfile(10, 1.0))
    profiles[3] = ClientProfile(10, 1.0, upload=1.0)
    sampler = oort.build(model_bytes=10_000, penalty=6.0)
    cohorts = [set(sampler.draw(Draw(3, v, 0, sizes, profiles))) for v in range(50)]
    assert cohorts == [{0, 1, 2}] * 50


@pytest.mark.parametrize(("falls", "admitted"), [(13, False), (14, True)])
def test_the_pacer_relaxes_the_preferred_time_when_utility_stalls(falls, admitted):
    """W = 1; t = 10 and 100, so T = 10 + 0.9 (30 + 5 n) after n rounds that brought no more.

    The slow one is worth (T / 100)² of the fast one, and c = 0.95: n = 13 makes 0.955² = 0.912,
    n = 14 makes 1.
    """
    answers = [answer(0, 1.0, 10.0, version) for version in range(falls + 1)]
    answers += [answer(0, 2.0, 10.0, falls + 1)]  # more than the round before: no relaxing
    answers += [answer(1, 2.0, 100.0, falls + 1)]
    options = {"explore": 0.0, "explore_least": 0.0, "pacer_window": 1}
    often = set.union(*drawn(options, answers, version=falls + 2, draws=200))
    assert often == ({0, 1} if admitted else {0})


def test_answers_of_one_round_count_together_for_the_pacer():
    sizes = ClientSizes(range(2), [10, 10])
    answers = [answer(0, 1.0, version=3), answer(1, 2.0, version=3), answer(0, 1.0, version=1)]
    memory = memory_of(oort.build(), answers, sizes)
    assert memory["achieved"].flatten().tolist() == [0, 10, 0, 30]
    assert memory["last"].tolist() == [[10, 10, 2], [20, 10, 4]]


def test_who_sat_out_is_known_and_counts_with_the_time_that_its_profile_promises():
    profiles = {0: ClientProfile(10, 1.0), 1: ClientProfile(10, 0.001)}
    nothing = LocalUpdate(1, {}, 10, seconds=0.0)
    assert drawn(GREEDY, [answer(0, 1.0), nothing], profiles=profiles) == [{0}]


@pytest.mark.parametrize("lost", [math.inf, math.nan])
@pytest.mark.parametrize("many", [1, 6])
def test_losses_of_who_diverges_are_large_and_end_no_run(lost, many):
    """A regression's squares overflow while its parameters are still finite."""
    broken = [replace(answer(client, 1.0), loss_square_sum=lost) for client in range(many)]
    sound = [answer(client, 1.0) for client in range(many, 8)]
    assert drawn({**GREEDY, "clip": 100.0}, [*broken, *sound], count=many) == [set(range(many))]


@pytest.mark.parametrize(
    "options", [{"pacer_window": 0}, {"cut_off": 2}, {"clip": 200}, {"preferred": -1}]
)
def test_what_makes_no_sense_is_refused(options):
    with pytest.raises(BadOption, match="must be at"):
        oort.build(**options)
