"""Ours: the least of τ / gain(τ), beside what algebra says of it."""

import numpy as np
import pytest

from fedcore.deadlines import auto
from fedcore.errors import BadOption

PROBED = [(0.001, 0.0, 0.0)]


def wanted(known, **options):
    return auto.build(**{"steps": 10, "batch_size": 2} | options).decide(known)[0]


@pytest.mark.parametrize("send", [0.1, 1.0, 10.0, 100.0, 1000.0])
@pytest.mark.parametrize("speed", [0.5, 4.0])
def test_equal_clients_get_the_geometric_mean_of_sending_and_half_a_rounds_worth(see, send, speed):
    # (s + x) (1 + x0 / x), x0 = n0 / c, is least at x = √(s x0): here n0 = 20 samples.
    tau = wanted(see(*[(1000, speed, send)] * 5, epochs=500, rounds=PROBED), batch_size=2)
    x = max(send * 0.1, 20 / 8 / speed, (send * 20 / speed) ** 0.5)  # which bounds may lengthen
    assert tau == pytest.approx(send + x, rel=0.015)


def test_it_is_the_least_of_time_by_gain_whoever_the_clients_are(see):
    draws = np.random.default_rng(3)
    rows = np.stack([draws.integers(5, 90, 40), draws.random(40) + 0.2, 9 * draws.random(40)], 1)

    def cost(tau):
        work = [min(max(0.0, c * (tau - s)), 3 * m) for m, c, s in rows]
        return tau / sum(n / (n + 20) for n in work)

    tau = wanted(see(*rows.tolist(), epochs=3, rounds=PROBED))
    assert cost(tau) <= 1.001 * min(cost(look) for look in np.linspace(1, 400, 20_000))


def test_without_links_half_of_them_do_an_eighth_of_what_brings_half(see):
    known = see((100, 1.0, 0.0), (100, 2.0, 0.0), (100, 4.0, 0.0), rounds=PROBED)
    assert wanted(known, batch_size=8) == pytest.approx(80 / 8 / 2)


def test_one_far_client_is_not_waited_for(see):
    near = [(100, 1.0, 1.0)] * 9
    without = wanted(see(*near, rounds=PROBED))
    assert wanted(see(*near, (100, 1.0, 500.0), rounds=PROBED)) == pytest.approx(without, rel=0.02)


def test_more_clients_than_are_looked_at_change_nothing_when_they_are_alike(see):
    rows = [(100, 1.0, 1.0)] * 10
    few, many = see(*rows, rounds=PROBED), see(*rows * 250, rounds=PROBED)
    assert wanted(many) == wanted(few)


def test_it_is_never_longer_than_the_longest_job(see):
    # One epoch of 1 s, and sending 100 s: nobody has more to do.
    assert wanted(see((1, 1.0, 100.0), epochs=1, rounds=PROBED)) == 101.0


def test_steps_are_checked():
    with pytest.raises(BadOption, match="steps must be above 0, got 0"):
        auto.build(steps=0)
