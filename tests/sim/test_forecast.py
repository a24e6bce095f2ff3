import math

import numpy as np
import pytest

from fedcore.sim.outlook import EXPONENTS, FEWEST, SPREAD, WITHIN, rounds_to, time_to


def curve(rounds, end=0.9, fall=0.6, power=EXPONENTS[8]):
    return [end - fall * r**-power for r in range(1, rounds + 1)]


def test_a_target_that_was_seen_is_known_to_the_round():
    seen = [0.1, 0.5, 0.4, 0.7, 0.6]
    assert rounds_to(0.5, seen) == (math.log(2), 0.0)
    assert rounds_to(0.65, seen) == (math.log(4), 0.0)


@pytest.mark.parametrize("power", [EXPONENTS[4], EXPONENTS[6], EXPONENTS[8]])
def test_a_power_law_is_found_again(power):
    """end - fall r^-p = target at r = (fall / (end - target))^(1/p)."""
    target, end, fall = 0.86, 0.9, 0.6
    mean, variance = rounds_to(target, curve(12, end, fall, power))
    assert math.exp(mean) == pytest.approx((fall / (end - target)) ** (1 / power), rel=0.02)
    assert variance < 1e-3


def test_noise_makes_it_less_certain():
    noise = np.random.default_rng(0).normal(0, 0.01, 20)
    seen = [value - abs(error) for value, error in zip(curve(20), noise, strict=True)]
    assert rounds_to(0.88, seen)[1] > 10 * rounds_to(0.88, curve(20))[1]


def test_what_ends_below_the_target_never_gets_there():
    assert rounds_to(0.95, curve(30)) == (math.inf, math.inf)
    assert rounds_to(0.6, [0.5] * 30) == (math.inf, math.inf)  # no rise at all
    assert rounds_to(0.99, curve(FEWEST - 1)) == (math.inf, math.inf)  # too short to tell


def test_it_is_at_least_one_round_more_than_was_seen():
    """The last accuracy is a jump above the law, the target just above it."""
    seen = [*curve(20)[:-1], 0.88]
    assert math.log(21) <= rounds_to(0.8801, seen)[0] < math.inf


def test_seeds_are_averaged_as_logarithms():
    """Two runs that reach it in round 2 and 8, of 5 seconds: 5 · √(2 · 8) = 20."""
    runs = [([0.1, 0.9], 5.0), ([0.1] * 7 + [0.9], 5.0)]
    time, within = time_to(0.8, runs)
    assert time == pytest.approx(20.0)
    between = (2 * SPREAD**2 + 2 * math.log(2) ** 2) / 3
    assert within == pytest.approx(math.exp(WITHIN * math.sqrt(between + SPREAD**2 / 2)))


def test_one_run_is_as_uncertain_as_runs_are_known_to_be():
    time, within = time_to(0.8, [([0.9], 3.0)])
    assert (time, within) == pytest.approx((3.0, math.exp(WITHIN * SPREAD * math.sqrt(2))))


def test_runs_that_never_get_there_do_not_count_beside_one_that_does():
    never = ([0.1] * 9, 5.0)
    assert time_to(0.8, [([0.9], 3.0), never]) == time_to(0.8, [([0.9], 3.0)])
    assert time_to(0.8, [never]) == (math.inf, math.inf)
    assert time_to(0.8, []) == (math.inf, math.inf)
