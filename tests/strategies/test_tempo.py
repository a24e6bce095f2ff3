"""Tempo by hand: what fits, how answers count, how far merges go, and that none goes further."""

import math
import weakref
from dataclasses import replace

import pytest
import torch

pytest.importorskip("hypothesis")

from hypothesis import example, given
from hypothesis import strategies as st

from fedcore.server.state import ServerState
from fedcore.strategies import tempo
from fedcore.types import SIT_OUT, ClientProfile, CoresetSpec, LocalPlan, LocalUpdate, Phase, Way

client = ClientProfile(100, 1.0)


def drawn(budget):
    return Phase(1, CoresetSpec(budget, "uniform-plain", "none"))


@pytest.mark.parametrize(
    ("deadline", "plan"),
    [
        (1000.0, LocalPlan((Phase(10),), Way.FULL)),
        (5000.0, LocalPlan((Phase(10),), Way.FULL)),
        (999.0, LocalPlan((Phase(9), drawn(99)), Way.PARTIAL)),
        (250.9, LocalPlan((Phase(2), drawn(50)), Way.PARTIAL)),
        (200.0, LocalPlan((Phase(2),), Way.PARTIAL)),
        (99.0, LocalPlan((drawn(99),), Way.RANDOM_SUBSET)),
        (1.0, LocalPlan((drawn(1),), Way.RANDOM_SUBSET)),
        (0.5, SIT_OUT),
    ],
)
def test_plans_by_hand(deadline, plan):
    assert tempo.build().plan(client, deadline, 10) == plan


def answers(*known):
    """(Δ, steps): from a model at 0 on 80 samples, of which E = 10 epochs are 100 steps."""
    return [(n, move, 0.0, {"steps": s, "num_samples": 80}) for n, (move, s) in enumerate(known)]


def test_a_first_merge_by_hand(merged, state_of):
    """ā = 100, √(ā / a) = 1, 2, 5: V = (2 + 6 - 2.5) / 8, and γ is their mean, 8 / 3, or less."""
    told = answers((2.0, 100), (3.0, 25), (-0.5, 4))
    after = merged(tempo.build(), state_of(0.0), *told)
    stretch = 100 / 43  # mean ā / mean a, which is below 8 / 3
    assert after.tensors["stretch"].item() == pytest.approx(stretch)
    assert after.params["w"].item() == pytest.approx(stretch * 5.5 / 8)
    equal = merged(tempo.build(), state_of(0.0), *answers((1.0, 25), (9.0, 25)))
    assert equal.tensors["stretch"].item() == pytest.approx(2)  # of 4 that were missed


def test_sizes_count_by_the_root_too(merged, state_of):
    """E epochs on 80 and 720 samples, both on time: 100 and 900 steps count 3 to 1."""
    told = [(0, 3.0, 0.0, {"steps": 100, "num_samples": 80}),
            (1, 6.0, 0.0, {"steps": 900, "num_samples": 720})]  # fmt: skip
    after = merged(tempo.build(), state_of(0.0), *told)
    assert after.params["w"].item() == pytest.approx((3 * 3 + 6) / 4)


def after_merges(merged, state, *several):
    """How far one merge after another went, and how far each was stretched."""
    for told in several:
        base = state.params["w"].item()
        state = merged(tempo.build(), state, *((n, base + m, base, o) for n, m, _, o in told))
        yield state.params["w"].item() - base, state.tensors["stretch"].item()


def test_merges_that_lead_on_grow_and_those_that_turn_back_shrink_to_one(merged, state_of):
    """25 of 100 steps: √4, then up to 4 times V, no more; back by half of that; never below 1."""
    there, back = answers((1.0, 25), (9.0, 25)), answers((-1.0, 25), (-1.0, 25))
    found = list(after_merges(merged, state_of(0.0), there, there, there, back, back, there))
    moves, stretches = zip(*found, strict=True)
    assert stretches == pytest.approx((2, 4, 4, 2, 4, 2))
    assert moves == pytest.approx((9, 9, 9, -1, -1, 9))  # the longest answers are 9 and 1
    turning = after_merges(merged, state_of(0.0), there, back, there, back)
    assert [stretch for _, stretch in turning] == pytest.approx([2, 1, 1, 1])


def test_at_right_angles_the_stretch_stays():
    across = [torch.tensor([3.0, 0.0]), torch.tensor([-2.0, 0.0]), torch.tensor([0.0, 5.0])]
    state, found = ServerState({"w": torch.zeros(2)}), []
    for move in across:
        merging = tempo.build().merge(state)
        answer = LocalUpdate(0, {"w": state.params["w"] + move}, 80, steps=4)
        merging.add(answer, state.params)
        state = merging.finish()
        found.append(state.tensors["stretch"].item())
    assert found == pytest.approx([5, 2.5, 2.5])


def test_counters_of_a_model_have_no_length_and_no_angle():
    """Δ of ±1 that turns back, beside a counter that grows by 40: γ falls from 5 as without it."""
    state, found = ServerState({"w": torch.zeros(1), "n": torch.tensor(0)}), []
    for move in (1.0, -1.0):
        merging = tempo.build().merge(state)
        params = {"w": state.params["w"] + move, "n": state.params["n"] + 40}
        merging.add(LocalUpdate(0, params, 80, steps=4), state.params)
        before, state = state, merging.finish()
        found.append(state.tensors["stretch"].item())
        assert abs(state.params["w"] - before.params["w"]).item() == 1  # as far as its answer
    assert found == pytest.approx([5, 2.5])


def test_equal_clients_that_are_on_time_are_fedavgs_in_every_merge(merged, state_of):
    told = answers((2.0, 100), (4.0, 100))
    moves = [move for move, _ in after_merges(merged, state_of(0.0), told, told, told)]
    assert moves == pytest.approx([3.0, 3.0, 3.0])


def test_no_merge_goes_further_than_its_longest_answer(merged, state_of):
    """A hundredth of the steps: ten times V, 1.5, at first, and more with time."""
    told = answers((1.0, 1), (2.0, 1))
    moves = [move for move, _ in after_merges(merged, state_of(0.0), told, told)]
    assert moves == pytest.approx([2.0, 2.0])


def test_work_that_a_node_reports_goes_before_its_steps(merged, state_of):
    """800 and 200 samples in however many steps count 1 to 2."""
    told = answers((8.0, 3), (1.0, 7))
    told[0][3]["work"], told[1][3]["work"] = 800, 200
    after = merged(tempo.build(), state_of(0.0), *told)
    assert after.params["w"].item() == pytest.approx(1.5 * (8 + 2) / 3)  # √1 and √4 in the mean


def test_weights_by_samples(merged, state_of):
    """p = 1/4 and 3/4."""
    told = [(0, 2.0, 0.0, {"steps": 100, "num_samples": 80}),
            (1, 1.0, 0.0, {"steps": 144, "num_samples": 240})]  # fmt: skip
    after = merged(tempo.build(aggregation="samples"), state_of(0.0), *told)
    mean, root = (2 / 10 + 3 / 12) / (1 / 10 + 3 / 12), math.sqrt((100 + 3 * 300) / 4)
    assert after.params["w"].item() == pytest.approx(mean * root * (1 / 10 + 3 / 12) / 4)


moves = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(st.lists(st.tuples(moves, st.integers(1, 100)), min_size=1, max_size=8))
@example([(1.6004492924247662e-159, 1)])  # whose square is no normal number
@example([(5e-324, 1), (0.0, 1)])
def test_stable_by_construction(known):
    """|w' - w| <= max |Δ|, whatever share of the work was done, in every merge."""
    base = {"w": torch.zeros(1, dtype=torch.float64)}
    state = ServerState(base)
    for _ in range(3):
        merging = tempo.build().merge(state)
        for number, (move, steps) in enumerate(known):
            params = {"w": torch.tensor([move], dtype=torch.float64)}
            merging.add(LocalUpdate(number, params, 80, steps=steps), base)
        state = replace(merging.finish(), params=base)
        moved = abs(merging.finish().params["w"].item())
        assert math.isfinite(moved)
        assert moved <= max(abs(move) for move, _ in known) * (1 + 1e-9)


@pytest.mark.parametrize("rate", [0.1, 10.0])
@pytest.mark.parametrize("deadline", [2.0, 30.0, 100.0])
def test_stable_at_the_extremes_and_never_late(simulated, deadline, rate):
    """Two samples of up to 50 x 95: E m / n in the thousands; and steps that are far too long."""
    options = {"epochs": 50, "rounds": 15, "stragglers": (), "learning_rate": rate}
    found = simulated("tempo", deadline=deadline, **options)
    plain = simulated("random-subset", deadline=deadline, **options)
    assert all(record.time <= 1 and record.rejected == 0 for record, _ in found)
    lengths, plainly = (
        [float(state.params["linear.weight"].norm()) for _, state in one] for one in (found, plain)
    )
    assert all(map(math.isfinite, lengths))
    assert lengths[-1] <= 30 * max(plainly)  # E m / n would be a hundred times that
    if rate == 0.1:
        assert found[-1][0].train_loss < found[0][0].train_loss


def test_many_answers_are_merged_as_if_all_were_there_at_once_and_none_is_kept():
    draw = torch.Generator().manual_seed(5)
    base = {"a": torch.randn(3, 2, generator=draw), "b": torch.randn(4, generator=draw)}
    known, gone, merging = [], [], tempo.build().merge(ServerState(base))
    for client in range(20):
        params = {n: v + torch.randn(v.shape, generator=draw) for n, v in base.items()}
        steps, size, copies = 1 + 7 * client, 8 * (1 + client % 3), 1 + client % 2
        known.append(({n: v - base[n] for n, v in params.items()}, steps, 10 * size // 8, copies))
        one = LocalUpdate(client, params, size, copies, steps=steps)
        merging.add(one, base)
        gone.append(weakref.ref(params["a"]))
        del one, params
    assert all(held() is None for held in gone)
    total = sum(copies / math.sqrt(a) for _, a, _, copies in known)
    after = merging.finish()
    for name, value in base.items():
        move = sum(c / math.sqrt(a) / total * deltas[name] for deltas, a, _, c in known)
        torch.testing.assert_close(after.tensors[f"last/{name}"], move)
        stretched = after.tensors["stretch"].float() * move
        torch.testing.assert_close(after.params[name], value + stretched)
