"""Deadlines: fixed, or by the fleet: bounded, smooth, and with a reason."""

import math

import pytest

from fedcore.errors import BadOption
from fedcore.flower.fleet import ROOM, SMOOTHING, Seen, controller

FLEET = [float(n) for n in range(1, 102)]  # its p-th percentile is 1 + p


def test_fixed():
    assert controller(20, 30.0)(Seen(None, FLEET, [], 3600.0)) == (20.0, "fixed")


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, "soon", [1]])
def test_what_is_no_deadline(wrong):
    with pytest.raises(BadOption, match="deadline"):
        controller(wrong, 30.0)


@pytest.mark.parametrize("auto", ["auto", None])
def test_before_anybody_was_measured_a_round_lasts_as_long_as_it_may(auto):
    assert controller(auto, 30.0)(Seen(None, [], [], 3600.0))[0] == 3600.0


def test_then_it_is_the_percentile():
    seconds, reason = controller("auto", 30.0)(Seen(3600.0, FLEET, [1.0], 3600.0))
    assert seconds == pytest.approx(71.0)
    assert reason == "70 % of 101 nodes need 71.0 s"


def test_it_moves_smoothly():
    seconds, _ = controller("auto", 30.0)(Seen(100.0, FLEET, [1.0], 3600.0))
    assert seconds == pytest.approx(100 + SMOOTHING * (71 - 100))


def test_it_is_bounded():
    decide = controller("auto", 30.0)
    assert decide(Seen(None, FLEET, [60.0], 3600.0))[0] == pytest.approx(ROOM * 60)
    assert decide(Seen(None, FLEET, [1.0], 50.0))[0] == 50.0


def test_a_fleet_that_slows_down_gets_more_time_within_ten_rounds():
    decide, tau = controller("auto", 30.0), 71.0
    for _ in range(10):
        tau, _ = decide(Seen(tau, [3 * s for s in FLEET], [1.0], 3600.0))
    assert tau == pytest.approx(3 * 71, rel=0.03)
