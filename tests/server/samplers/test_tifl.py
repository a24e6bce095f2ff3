import numpy as np
import pytest

from fedcore.errors import BadOption
from fedcore.server.method import Draw
from fedcore.server.samplers import tifl
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientProfile, LocalUpdate

SIZES = ClientSizes(range(20), [10] * 20)
# Client 19 is the fastest: tiers are {16..19}, {12..15}, {8..11}, {4..7}, {0..3}, slowest last.
PROFILES = {client: ClientProfile(10, 1.0 + client) for client in SIZES}


def tier_of(client):
    return 4 - client // 4


def drawn(sampler, count, version=0, memory=None):
    return set(sampler.draw(Draw(count, version, 0, SIZES, PROFILES, memory=memory or {})))


def test_a_cohort_is_of_one_tier_and_all_tiers_are_used_alike():
    counts = np.zeros(5)
    for version in range(1000):
        (tier,) = {tier_of(client) for client in drawn(tifl.build(), 4, version)}
        counts[tier] += 1
    assert counts / 1000 == pytest.approx([0.2] * 5, abs=0.05)


def test_the_amount_of_data_and_the_link_count_for_the_time():
    """Equal speeds: sizes 1 to 20 make the tiers, and so does a link that takes as long."""
    sizes = ClientSizes(range(20), range(1, 21))
    by_size = {client: ClientProfile(1 + client, 1.0) for client in sizes}
    by_link = {client: ClientProfile(10, 1.0, upload=100 / (1 + client)) for client in sizes}
    for profiles, options in ((by_size, {}), (by_link, {"model_bytes": 100})):
        sampler = tifl.build(**options)
        for version in range(50):
            cohort = sampler.draw(Draw(4, version, 0, sizes, profiles))
            assert len({client // 4 for client in cohort}) == 1


def test_a_small_tier_is_filled_up_from_its_neighbours():
    for version in range(50):
        cohort = drawn(tifl.build(), 6, version)
        tiers = [tier_of(client) for client in cohort]
        whole = [tier for tier in range(5) if tiers.count(tier) == 4]
        assert any(all(abs(tier - own) <= 1 for tier in tiers) for own in whole)


NOTHING = [0.2] * 5


@pytest.mark.parametrize(
    ("used", "losses", "expected"),
    [
        # Two rounds, I = 2: the tier used last was not used before them, so nothing is known.
        ([0, 1], [1.0, 2.0], NOTHING),
        # Tier 1 had 1.0 before the last two rounds and 1.5 in the last: worse. By loss the order
        # is 2, 3, 4 (never answered), 1, 0: chances 5/15, 4/15, 3/15, 2/15, 1/15.
        ([0, 1, 0, 1], [1.2, 1.0, 1.1, 1.5], [1 / 15, 2 / 15, 5 / 15, 4 / 15, 3 / 15]),
        # It fell from 1.0 to 0.9: chances stay.
        ([0, 1, 0, 1], [1.2, 1.0, 1.1, 0.9], NOTHING),
        # Between two intervals nothing is changed, and what was changed stays.
        ([0, 1, 0, 1, 4], [1.2, 1.0, 1.1, 1.5, 9.9], [1 / 15, 2 / 15, 5 / 15, 4 / 15, 3 / 15]),
        # A round in which nobody answered tells nothing of its tier, whose last loss stands.
        ([0, 1, 0, 1], [1.2, 1.0, 1.1, np.nan], NOTHING),
    ],
)
def test_chances_follow_the_losses(used, losses, expected):
    found = tifl.adapted(losses, lambda version, _: used[version], 5, 2, np.inf)
    assert found.tolist() == pytest.approx(expected)


def test_a_tier_without_credits_is_not_drawn():
    """Tier 1 has used both of its credits: of n = 4 tiers, 4/10, 3/10, 2/10 and 1/10."""
    used, losses = [0, 1, 0, 1], [1.2, 1.0, 1.1, 1.5]
    found = tifl.adapted(losses, lambda version, _: used[version], 5, 2, 2)
    assert found.tolist() == pytest.approx([0, 0, 3 / 6, 2 / 6, 1 / 6])
    found = tifl.adapted([1.0], lambda *_: 1, 5, 2, 1)
    assert found.tolist() == [0.25, 0, 0.25, 0.25, 0.25]


def test_without_any_credits_all_may_be_drawn():
    assert tifl.adapted([1.0] * 5, lambda version, _: version, 5, 2, 1).tolist() == NOTHING


@pytest.mark.parametrize("count", [4, 6])
def test_every_use_of_a_tier_costs_one_of_its_credits(count):
    """10 rounds, 5 tiers of 4: 4 credits each, of the tier that is drawn, not of who fills it."""
    sampler, memory, uses = tifl.build(rounds=10), {}, np.zeros(5, int)
    for version in range(20):
        cohort = drawn(sampler, count, version, memory)
        tiers = [tier_of(client) for client in cohort]
        whole = [tier for tier in range(5) if tiers.count(tier) == 4]
        uses[whole] += 1
        for client in sorted(cohort):  # the slowest of them answers first, the fastest last
            memory = sampler.observe(memory, answer(client, 1.0, version), SIZES)
    assert uses.tolist() == [4] * 5


def answer(client, loss, version):
    return LocalUpdate(client, {}, 10, base_version=version, loss_sum=3 * loss, loss_count=3)


def test_answers_of_a_round_are_one_loss():
    sampler, memory = tifl.build(), {}
    for client, loss, version in ((16, 1.0, 0), (17, 2.0, 0), (3, 5.0, 2)):
        memory = sampler.observe(memory, answer(client, loss, version), SIZES)
    assert memory["losses"].tolist() == [[9, 6], [0, 0], [15, 3]]


@pytest.mark.parametrize("options", [{"tiers": 0}, {"interval": 0}])
def test_what_makes_no_sense_is_refused(options):
    with pytest.raises(BadOption, match="at least 1"):
        tifl.build(**options)
