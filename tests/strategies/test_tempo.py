"""Tempo by hand: what fits, how far answers are lengthened, and that nothing goes further."""

import math

import pytest
import torch

pytest.importorskip("hypothesis")

from hypothesis import given
from hypothesis import strategies as st

from fedcore.strategies import tempo
from fedcore.types import SIT_OUT, ClientProfile, CoresetSpec, LocalPlan, Path, Phase

client = ClientProfile(100, 1.0)


def drawn(budget):
    return Phase(1, CoresetSpec(budget, "uniform-plain", "none"))


@pytest.mark.parametrize(
    ("deadline", "plan"),
    [
        (1000.0, LocalPlan((Phase(10),), Path.FULL)),
        (5000.0, LocalPlan((Phase(10),), Path.FULL)),
        (999.0, LocalPlan((Phase(9), drawn(99)), Path.PARTIAL)),
        (250.9, LocalPlan((Phase(2), drawn(50)), Path.PARTIAL)),
        (200.0, LocalPlan((Phase(2),), Path.PARTIAL)),
        (99.0, LocalPlan((drawn(99),), Path.RANDOM_SUBSET)),
        (1.0, LocalPlan((drawn(1),), Path.RANDOM_SUBSET)),
        (0.5, SIT_OUT),
    ],
)
def test_plans_by_hand(deadline, plan):
    assert tempo.build().plan(client, deadline, 10) == plan


def answers(*known):
    """(Δ, steps): from a model at 0 on 80 samples, of which E = 10 epochs are 100 steps."""
    return [(n, move, 0.0, {"steps": s, "num_samples": 80}) for n, (move, s) in enumerate(known)]


def test_merges_by_hand(merged, state_of):
    """2 and 4 did everything: R = 3. Of 1 a tenth was done, φ = 3; of -2 half, φ = 1.5."""
    told = answers((2.0, 100), (4.0, 100), (1.0, 10), (-2.0, 50))
    after = merged(tempo.build(), state_of(0.0), *told)
    assert after.params["w"].item() == pytest.approx((2 + 4 + 3 - 3) / 4)
    assert float(after.tensors["reach"]) == 3.0


def test_a_tenth_counts_at_most_ten_times(merged, state_of):
    """R = 50 would allow φ = 50."""
    after = merged(tempo.build(), state_of(0.0), *answers((50.0, 100), (1.0, 10)))
    assert after.params["w"].item() == pytest.approx((50 + 10) / 2)


def test_who_is_beyond_the_median_is_not_shortened(merged, state_of):
    after = merged(tempo.build(), state_of(0.0), *answers((1.0, 100), (5.0, 10)))
    assert after.params["w"].item() == pytest.approx(3.0)


def test_the_reach_is_remembered_where_nobody_does_everything(merged, state_of):
    strategy = tempo.build()
    first = merged(strategy, state_of(0.0), *answers((4.0, 100)))
    told = [(0, 5.0, 4.0, {"steps": 10, "num_samples": 80})]
    second = merged(strategy, first, *told)
    assert second.params["w"].item() == pytest.approx(4.0 + 4.0)  # moved by 1, lengthened to R = 4
    assert float(second.tensors["reach"]) == 4.0


def test_before_anybody_did_it_is_the_median_of_all(merged, state_of):
    after = merged(tempo.build(), state_of(0.0), *answers((1.0, 10), (2.0, 10), (6.0, 10)))
    assert after.params["w"].item() == pytest.approx((2 + 2 + 6) / 3)
    assert "reach" not in after.tensors


def test_work_that_a_node_reports_goes_before_its_steps(merged, state_of):
    """400 of 10 x 80 samples in however many steps: φ = 2."""
    told = answers((8.0, 100), (1.0, 7))
    told[1][3]["work"] = 400
    after = merged(tempo.build(), state_of(0.0), *told)
    assert after.params["w"].item() == pytest.approx((8 + 2) / 2)


def test_weights_by_samples(merged, state_of):
    told = [(0, 2.0, 0.0, {"steps": 100, "num_samples": 80}),
            (1, 1.0, 0.0, {"steps": 150, "num_samples": 240})]  # fmt: skip
    after = merged(tempo.build(aggregation="samples"), state_of(0.0), *told)
    assert after.params["w"].item() == pytest.approx((80 * 2 + 240 * 2) / 320)


moves = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(st.lists(st.tuples(moves, st.integers(1, 100)), min_size=1, max_size=8))
def test_no_merge_goes_further_than_its_longest_answer(known):
    """Stable by construction: φ |Δ| <= max(|Δ|, R), whatever share of the work was done."""
    from fedcore.server.state import ServerState
    from fedcore.types import LocalUpdate

    base = {"w": torch.zeros(1, dtype=torch.float64)}
    merging = tempo.build().merge(ServerState(base))
    for number, (move, steps) in enumerate(known):
        params = {"w": torch.tensor([move], dtype=torch.float64)}
        merging.add(LocalUpdate(number, params, 80, steps=steps), base)
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
