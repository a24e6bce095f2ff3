import numpy as np
import pytest

from fedcore.config import Experiment, resolve
from fedcore.errors import BadOption
from fedcore.server.clock import Presence
from fedcore.server.method import full_seconds
from fedcore.sim.fleet import deadline, fleet_of
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientProfile

SIZES = dict(enumerate([50, 80, 120, 300, 700, 1500, 60, 90, 400, 5000]))


def fleet(law="normal", std=0.5, floor=0.1, *, stragglers=30.0, seed=0, sizes=None):
    options = Experiment(capability=law, capability_std=std, capability_floor=floor, epochs=10)
    return fleet_of(sizes or SIZES, options, stragglers, seed)


@pytest.mark.parametrize("share", [10, 20, 30, 50, 90])
def test_the_slowest_share_misses_the_deadline(share):
    found = fleet(stragglers=share, sizes=dict(enumerate(range(50, 150))))
    late = [c.seconds(10 * c.num_samples) > found.deadline for c in found.profiles.values()]
    assert sum(late) == share


def test_the_deadline_by_hand():
    """Full rounds take 10, 20, 30, 40, 50 seconds; the 75th percentile is 40."""
    profiles = {i: ClientProfile(i + 1, 1.0) for i in range(5)}
    assert deadline(full_seconds(profiles, 10), 25) == 40


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


def many(count=20_000, **given):
    options = resolve({"stragglers": [30], **given}, lambda name, preset: {})
    sizes = dict(enumerate(np.random.default_rng(1).integers(10, 1000, count).tolist()))
    return fleet_of(sizes, options, 30.0, 3)


def column(found, name):
    return np.array([getattr(client, name) for client in found.profiles.values()])


def test_phones_have_the_speeds_and_links_of_the_percentiles():
    """A quarter need 24 ms to infer a sample or less, half 41: 1000 / (3 ms) samples a second."""
    found = many(capability="phones")
    speeds, links = column(found, "capability"), column(found, "download")
    milliseconds = 1000 / (3 * speeds)
    assert milliseconds.min() >= 15
    assert milliseconds.max() <= 199
    # 4 deviations of a share of 20,000 draws are 1.4 %; percentiles 23 to 27, and 48 to 52
    assert np.quantile(milliseconds, 0.25) == pytest.approx(24)
    assert 39 <= np.quantile(milliseconds, 0.5) <= 43
    # 6,074.7 kbit/s at the median are 759 kB/s; percentiles 48 and 52 are 699 and 798
    assert 698e3 < np.median(links) < 799e3
    assert links.min() >= 1016.9 * 125
    assert np.array_equal(links, column(found, "upload"))
    assert abs(np.corrcoef(speeds, links)[0, 1]) < 0.03


@pytest.mark.parametrize(("share", "slowest"), [(10, 1.14), (30, 1.44)])
def test_of_phones_with_equal_data_the_slowest_is_not_far_behind(share, slowest):
    """What the law of all 51,496 phones gives; normal speeds, cut at 0.1, have 4.4 and 7.7."""
    found = fleet("phones", stragglers=share, sizes=dict.fromkeys(range(20_000), 100))
    whole = full_seconds(found.profiles, 10)
    assert whole.max() / found.deadline == pytest.approx(slowest, abs=0.02)


def test_links_of_all_clients_may_be_set():
    found = many(50, capability="phones", upload=1000.0)
    assert set(column(found, "upload")) == {1000.0}
    assert len(set(column(found, "download"))) > 40


def spearman(one, other):
    return np.corrcoef(np.argsort(np.argsort(one)), np.argsort(np.argsort(other)))[0, 1]


@pytest.mark.parametrize("law", ["normal", "phones"])
@pytest.mark.parametrize("rho", [-1.0, -0.5, 0.3, 0.8, 1.0])
def test_speed_and_size_go_together_as_far_as_asked_and_speeds_stay_the_same(law, rho):
    """Of normals that correlate by ρ, ranks correlate by 6/π asin(ρ/2) (Pearson 1907)."""
    found = many(capability=law, speed_size_correlation=rho)
    plain = many(capability=law)
    sizes = column(found, "num_samples") + np.linspace(0, 0.5, 20_000)  # ties in some order
    expected = 6 / np.pi * np.arcsin(rho / 2)
    assert spearman(sizes, column(found, "capability")) == pytest.approx(expected, abs=0.03)
    speeds = [np.sort(column(one, "capability")) for one in (found, plain)]
    assert np.array_equal(*speeds)
    assert abs(spearman(column(plain, "num_samples"), column(plain, "capability"))) < 0.03


def test_a_deadline_in_seconds_makes_a_share_of_stragglers():
    sizes = dict(enumerate(range(1, 11)))  # full rounds of 10, 20, ..., 100 seconds
    options = resolve({"capability": "equal", "deadline": 75}, lambda name, preset: {})
    found = fleet_of(sizes, options, 0.0, 0)
    assert (found.deadline, found.stragglers) == (75.0, 30.0)


def test_clients_come_and_go_in_units_of_the_deadline():
    options = resolve(
        {"deadline": 50, "mean_on": 2, "mean_off": 1, "capability": "equal"},
        lambda name, preset: {},
    )
    found = fleet_of(SIZES, options, 0.0, 4)
    same = Presence(ClientSizes.of(SIZES), 100.0, 50.0, 4)
    assert [found.presence.away(t) for t in (0.0, 99.0)] == [same.away(t) for t in (0.0, 99.0)]
    assert fleet().presence is None
