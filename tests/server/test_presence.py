import itertools

import numpy as np
import pytest

from fedcore.server.clock import Presence
from fedcore.sources.clients import ClientSizes


def sizes(count):
    return ClientSizes.of(dict.fromkeys(range(count), 1))


def by_hand(first, ends):
    """Clients whose spells end when the test says; even spells of those who are here at first."""
    presence = Presence(sizes(len(first)), 1.0, 1.0, 0)
    presence._first = np.array(first)
    presence._ends = [np.array(row, float) for row in ends]
    return presence


def test_who_is_away_by_hand():
    """Client 0 is here until 10, then away until 15; client 1 is away until 4."""
    presence = by_hand([True, False], [[10, 4], [15, 12], [100, 101]])
    found = {time: presence.away(time) for time in (0, 4, 9, 10, 11, 12, 14.5, 15)}
    assert found == {
        0: ({1}, None),
        4: (set(), None),
        9: (set(), None),
        10: ({0}, None),
        11: ({0}, None),
        12: ({0, 1}, 15.0),
        14.5: ({0, 1}, 15.0),
        15: ({1}, None),
    }


@pytest.mark.parametrize("before", [None, 11.0])
@pytest.mark.parametrize(
    ("time", "seconds", "paused"),
    [
        (15, 5, 0.0),
        (15, 15, 0.0),  # until 30, when the client goes
        (15, 16, 10.0),
        (12, 1, 3.0),  # asked while it is away
        (12, 16, 13.0),
        (15, 0, 0.0),
    ],
)
def test_a_pause_by_hand_whatever_was_asked_before(before, time, seconds, paused):
    """Here until 10, away until 15, here until 30, away until 40, here until 99."""
    presence = by_hand([True], [[10], [15], [30], [40], [99]])
    if before is not None:
        presence.away(before)
    assert presence.pause(0, time, seconds) == paused


def test_asking_changes_nothing():
    """Not how often, not when, not about whom: else methods would meet different clients."""
    often, rarely = Presence(sizes(20), 3.0, 1.0, 7), Presence(sizes(20), 3.0, 1.0, 7)
    for time in np.linspace(0, 50, 400):
        often.away(time)
        often.pause(3, time, 2.0)
    assert often.away(50.0) == rarely.away(50.0)
    assert often.pause(3, 50.0, 30.0) == rarely.pause(3, 50.0, 30.0)
    assert often.away(50.0) != Presence(sizes(20), 3.0, 1.0, 8).away(50.0)


def test_the_share_of_time_away_is_that_of_the_means_from_the_start():
    """3 here to 1 away: a quarter are away at any time; 4,000 clients, 4 deviations are 2.7 %."""
    presence = Presence(sizes(4000), 3.0, 1.0, 0)
    for time in (0.0, 0.5, 5.0, 40.0):
        assert len(presence.away(time)[0]) / 4000 == pytest.approx(0.25, abs=0.028)


def test_spells_have_their_means():
    """Work of 3,000 seconds meets 1,000 spells here of 3 and as many away of 1, in the mean."""
    presence = Presence(sizes(30), 3.0, 1.0, 0)
    paused = [presence.pause(client, 0.0, 3000.0) for client in range(30)]
    # of 30,000 exponential times: a deviation of the mean is 1.4 / sqrt(30,000)
    assert np.mean(paused) / 1000 == pytest.approx(1.0, abs=0.04)


def test_a_pause_agrees_with_who_is_away():
    """The plain twin: look every hundredth of a second."""
    presence, looked = Presence(sizes(3), 2.0, 1.0, 5), Presence(sizes(3), 2.0, 1.0, 5)
    paused = presence.pause(1, 0.0, 6.0)
    times = itertools.count(0.005, 0.01)
    worked = seen = 0.0
    while worked < 6.0:
        away = 1 in looked.away(next(times))[0]
        worked, seen = (worked, seen + 0.01) if away else (worked + 0.01, seen)
    assert paused == pytest.approx(seen, abs=0.1)
    assert paused > 0
