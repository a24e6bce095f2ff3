from fedcore.server.method import Draw
from fedcore.server.samplers import power_of_choice
from fedcore.sources.clients import ClientSizes
from fedcore.types import LocalUpdate

SIZES = ClientSizes(range(6), [10, 10, 10, 10, 10, 1000])


def memory_of(sampler, losses):
    memory = {}
    for client, loss in losses.items():
        update = LocalUpdate(client, {}, 10, loss_sum=4 * loss, loss_count=4)
        memory = sampler.observe(memory, update, SIZES)
    return memory


def drawn(sampler, losses, count, version=0):
    memory = memory_of(sampler, losses)
    return list(sampler.draw(Draw(count, version, 0, SIZES, {}, memory=memory)))


def test_of_all_candidates_those_of_largest_mean_loss_take_part():
    """d = 6 is everybody; means, not sums: client 5 has many samples and little loss."""
    losses = {0: 0.1, 1: 0.5, 2: 0.9, 3: 0.3, 4: 0.7, 5: 0.2}
    sampler = power_of_choice.build(candidates=6)
    assert drawn(sampler, losses, 3) == [2, 4, 1]


def test_who_never_answered_comes_first():
    sampler = power_of_choice.build(candidates=6)
    assert set(drawn(sampler, {0: 9.0, 1: 8.0, 2: 7.0, 3: 6.0}, 2)) == {4, 5}


def test_a_later_answer_takes_the_place_of_the_earlier():
    sampler = power_of_choice.build(candidates=6)
    memory = memory_of(sampler, dict.fromkeys(range(6), 1.0))
    memory = sampler.observe(memory, LocalUpdate(3, {}, 10, loss_sum=8, loss_count=4), SIZES)
    memory = sampler.observe(memory, LocalUpdate(2, {}, 10, loss_sum=1, loss_count=4), SIZES)
    asked = Draw(5, 0, 0, SIZES, {}, memory=memory)
    cohort = list(sampler.draw(asked))
    assert cohort[0] == 3
    assert 2 not in cohort


def test_candidates_are_drawn_by_size():
    """K = d = 1: client 5 with 1000 / 1050 = 0.952; standard error 0.0034 over 4,000 draws."""
    sampler = power_of_choice.build(candidates=1)
    losses = dict.fromkeys(range(5), 100.0) | {5: 0.0}  # whatever their losses
    often = sum(drawn(sampler, losses, 1, version) == [5] for version in range(4000))
    assert abs(often / 4000 - 1000 / 1050) < 0.015


def test_twice_the_cohort_are_candidates_unless_told_otherwise():
    """K = 3 of 6: everybody is a candidate. K = 2: four are, so the two largest may be missed."""
    sampler = power_of_choice.build()
    losses = {0: 0.1, 1: 0.5, 2: 0.9, 3: 0.3, 4: 0.7, 5: 0.2}
    assert all(drawn(sampler, losses, 3, version) == [2, 4, 1] for version in range(20))
    assert any(drawn(sampler, losses, 2, version) != [2, 4] for version in range(20))
