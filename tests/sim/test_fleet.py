import numpy as np
import pytest

from fedcore.config import Experiment
from fedcore.errors import BadOption
from fedcore.records import RunKey
from fedcore.sim.fleet import deadline, fleet_of
from fedcore.types import ClientProfile

SIZES = dict(enumerate([50, 80, 120, 300, 700, 1500, 60, 90, 400, 5000]))


def fleet(law="normal", std=0.5, floor=0.1, *, stragglers=30.0, seed=0, sizes=None):
    options = Experiment(capability=law, capability_std=std, capability_floor=floor, epochs=10)
    return fleet_of(sizes or SIZES, options, RunKey("", "", stragglers, seed))


@pytest.mark.parametrize("share", [10, 20, 30, 50, 90])
def test_the_slowest_share_misses_the_deadline(share):
    found = fleet(stragglers=share, sizes=dict(enumerate(range(50, 150))))
    late = [c.seconds(10 * c.num_samples) > found.deadline for c in found.profiles.values()]
    assert sum(late) == share


def test_the_deadline_by_hand():
    """Full rounds take 10, 20, 30, 40, 50 seconds; the 75th percentile is 40."""
    profiles = {i: ClientProfile(i + 1, 1.0) for i in range(5)}
    assert deadline(profiles, 25, 10) == 40


@pytest.mark.parametrize("share", [0, -1, 100, 130])
def test_an_impossible_share_is_refused(share):
    with pytest.raises(BadOption, match=f"got {share}"):
        Experiment(stragglers=(share,))


def test_speeds_have_the_papers_mean_and_variance_and_none_is_too_slow():
    """N(1, 0.25) cut at 0.1: the cut moves the mean by 0.04 and the deviation by -0.04."""
    found = fleet(sizes=dict.fromkeys(range(20_000), 100))
    speeds = np.array([client.capability for client in found.profiles.values()])
    assert speeds.min() >= 0.1
    assert speeds.mean() == pytest.approx(1.04, abs=0.02)
    assert speeds.std() == pytest.approx(0.46, abs=0.02)


def test_size_linked_speeds_by_hand():
    """Sizes 1, 3: mean 2, deviation 1, so c = 1 - 0.25 and 1 + 0.25."""
    found = fleet("size-linked", 0.25, sizes={0: 1, 1: 3})
    assert [client.capability for client in found.profiles.values()] == [0.75, 1.25]


def test_size_linked_speeds_of_equal_clients_are_equal():
    found = fleet("size-linked", 0.25, sizes={0: 7, 1: 7})
    assert [client.capability for client in found.profiles.values()] == [1.0, 1.0]


def test_equal_speeds():
    assert {c.capability for c in fleet("equal").profiles.values()} == {1.0}


def test_an_unknown_law_is_refused():
    with pytest.raises(BadOption, match=r"capability must be one of.*'pareto'"):
        fleet("pareto")


def test_the_same_seed_gives_the_same_fleet():
    assert fleet(seed=3) == fleet(seed=3)
    assert fleet(seed=3) != fleet(seed=4)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("std", "floor"), [(0.0, 1.5), (0.1, 1.4), (0.5, 100.0)])
def test_a_floor_that_next_to_no_draw_reaches_is_refused(std, floor):
    with pytest.raises(BadOption, match=f"capability_floor must be at most .* got {floor:g}"):
        fleet("normal", std, floor)


@pytest.mark.parametrize(("std", "floor"), [(0.0, 1.0), (0.1, 1.2)])
def test_a_floor_that_draws_reach_is_kept(std, floor):
    found = fleet("normal", std, floor)
    assert min(client.capability for client in found.profiles.values()) >= floor


def test_laws_that_draw_nothing_take_any_floor():
    found = fleet("size-linked", 0.25, 5.0)
    assert {client.capability for client in found.profiles.values()} == {5.0}
