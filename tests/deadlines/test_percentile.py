import numpy as np
import pytest

from fedcore.deadlines import percentile
from fedcore.sim.fleet import deadline

FLEET = [float(n) for n in range(1, 102)]  # its p-th percentile is 1 + p


def test_it_is_the_percentile_of_whole_jobs_as_that_of_the_fleet_is(see, of_seconds):
    assert percentile.build().decide(of_seconds(*FLEET))[0] == pytest.approx(71.0)
    assert percentile.build(stragglers=10).decide(of_seconds(*FLEET))[0] == pytest.approx(91.0)
    rows = [(30, 3.0, 1.0), (50, 1.0, 3.0), (8, 2.0, 0.5)]
    full = np.array([21.0, 103.0, 8.5])
    found = percentile.build(stragglers=40).decide(see(*rows))
    assert found[0] == pytest.approx(deadline(full, 40))
    assert found[1] == f"60 % of 3 clients need {deadline(full, 40):.4g} s"


def test_it_goes_half_of_the_way_in_logarithms_but_not_from_the_probe(of_seconds):
    decide = percentile.build().decide
    after_probe = of_seconds(*FLEET, rounds=[(0.001, 0.0, 0.0)])
    assert decide(after_probe)[0] == pytest.approx(71.0)
    later = of_seconds(*FLEET, rounds=[(0.001, 0.0, 0.0), (71.0 / 4, 0.0, 0.0)])
    assert decide(later)[0] == pytest.approx(71.0 / 2)


def test_a_fleet_that_slows_down_gets_more_time_within_ten_rounds(of_seconds):
    tau, slower = 71.0, [3 * seconds for seconds in FLEET]
    for _ in range(10):
        rounds = [(1.0, 0.0, 0.0), (tau, 0.0, 0.0)]
        tau, _ = percentile.build().decide(of_seconds(*slower, rounds=rounds))
    assert tau == pytest.approx(3 * 71, rel=0.05)
