"""Ours: the least of τ / gain(τ), beside what algebra says of it."""

import numpy as np
import pytest

from fedcore.deadlines import auto
from fedcore.errors import BadOption

PROBED = [(0.001, 0.0, 0.0)]


def wanted(known, **options):
    return auto.build(**{"kappa": 0.5, "batch_size": 1} | options).decide(known)[0]


def test_equal_clients_get_what_the_condition_of_the_least_says(see):
    # 100 samples at 1 a second: κ' = 50 s. At the least, exp(x / κ') = 1 + (s + x) / κ'.
    for send in (1.0, 10.0, 100.0, 1000.0):
        tau = wanted(see(*[(100, 1.0, send)] * 5, epochs=50, rounds=PROBED))
        x = np.linspace(0.01, 5000, 1_000_000)
        met = x[np.argmin(np.abs(np.exp(np.minimum(x / 50, 99)) - 1 - (send + x) / 50))]
        assert tau == pytest.approx(send + met, rel=0.02)


def test_where_sending_takes_little_it_is_youngs_interval(see):
    tau = wanted(see((100, 1.0, 0.04), epochs=50, rounds=PROBED))
    assert tau == pytest.approx(0.04 + (2 * 0.04 * 50) ** 0.5, rel=0.05)


def test_faster_links_and_faster_clients_shorten_it(see):
    near, far = ((100, 1.0, s) for s in (1.0, 10.0))
    assert wanted(see(near, rounds=PROBED)) < wanted(see(far, rounds=PROBED))
    quick, slow = ((100, c, 1.0) for c in (4.0, 1.0))
    assert wanted(see(quick, rounds=PROBED)) < wanted(see(slow, rounds=PROBED))


def test_without_links_a_step_of_half_of_them_fits(see):
    known = see((100, 1.0, 0.0), (100, 2.0, 0.0), (100, 4.0, 0.0), rounds=PROBED)
    assert wanted(known, batch_size=8) == pytest.approx(8 / 2)


def test_one_far_client_is_not_waited_for(see):
    near = [(100, 1.0, 1.0)] * 9
    without = wanted(see(*near, rounds=PROBED))
    assert wanted(see(*near, (100, 1.0, 500.0), rounds=PROBED)) == pytest.approx(without, rel=0.1)


def test_it_is_never_longer_than_the_longest_job(see):
    # One epoch of 1 s, and sending 100 s: nobody has more to do.
    assert wanted(see((1, 1.0, 100.0), epochs=1, rounds=PROBED)) <= 101.0 * 1.01


def test_kappa_is_checked():
    with pytest.raises(BadOption, match="kappa must be above 0, got 0"):
        auto.build(kappa=0)
