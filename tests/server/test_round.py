import pytest
import torch

from fedcore.errors import BadOption
from fedcore.server.aggregate import mean
from fedcore.server.round import RoundSettings, assignments_of, checked, run_round
from fedcore.strategies import fedavg, fedavg_ds, fedcore
from fedcore.types import SIT_OUT, ClientProfile, CoresetSpec, LocalPlan, LocalUpdate, Path, Phase

SETTINGS = RoundSettings(deadline=100.0, epochs=10, seed=5)


class Echo:
    """An executor that adds a number per client, and remembers what it was asked."""

    def __init__(self, shifts):
        self.shifts = shifts
        self.asked = []

    def run(self, params, assignments):
        self.asked += assignments
        return [
            LocalUpdate(a.client_id, {"w": params["w"] + self.shifts[a.client_id]}, 10)
            for a in assignments
        ]


START = {"w": torch.tensor([0.0])}
COHORT = {
    0: (ClientProfile(10, 1.0), 1),  # 100 seconds: exactly on time
    1: (ClientProfile(10, 0.5), 2),  # 200 seconds: late
}


def test_a_round_lasts_as_long_as_its_slowest_client():
    outcome = run_round(1, START, COHORT, fedavg.build(), Echo({0: 1.0, 1: 4.0}), SETTINGS)
    assert outcome.seconds == 200
    assert outcome.params["w"].item() == 3.0  # (1 + 4 + 4) / 3


def test_dropped_clients_neither_count_nor_take_time():
    executor = Echo({0: 1.0, 1: 4.0})
    outcome = run_round(1, START, COHORT, fedavg_ds.build(), executor, SETTINGS)
    assert [a.client_id for a in executor.asked] == [0]
    assert outcome.seconds == 100
    assert outcome.params["w"].item() == 1.0
    assert [client.path for client in outcome.clients] == [Path.FULL, Path.SAT_OUT]


def test_what_a_round_will_ask_is_known_before():
    for strategy in (fedavg.build(), fedavg_ds.build(), fedcore.build()):
        executor = Echo({0: 1.0, 1: 4.0})
        run_round(3, START, COHORT, strategy, executor, SETTINGS)
        assert assignments_of(3, COHORT, strategy, SETTINGS) == executor.asked


def test_the_record_says_what_every_client_did():
    outcome = run_round(1, START, COHORT, fedcore.build(), Echo({0: 0.0, 1: 0.0}), SETTINGS)
    fast, slow = outcome.clients
    assert (fast.path, fast.work, fast.coreset_budget) == (Path.FULL, 100, None)
    # c·τ = 50: one pass on 10, then 9 epochs on floor(40 / 9) = 4
    assert (slow.path, slow.work, slow.coreset_budget) == (Path.CORESET, 46, 4)
    assert slow.copies == 2
    assert slow.seconds == 92


def test_one_broken_answer_does_not_break_the_model():
    executor = Echo({0: 1.0, 1: float("nan")})
    outcome = run_round(1, START, COHORT, fedavg.build(), executor, SETTINGS)
    assert outcome.params["w"].item() == 1.0
    assert outcome.rejected == 1


def test_everybody_broken_keeps_the_model():
    executor = Echo({0: float("inf"), 1: float("nan")})
    outcome = run_round(1, START, COHORT, fedavg.build(), executor, SETTINGS)
    assert outcome.params["w"].item() == 0.0
    assert outcome.rejected == 2


@pytest.mark.parametrize(
    ("number", "chained", "expected"),
    [(1, False, [1.0, 4.0]), (1, True, [1.0, 5.0]), (2, True, [1.0, 4.0])],
)
def test_only_the_first_round_can_be_chained_and_only_on_request(number, chained, expected):
    answers = []

    def remember(params, updates):
        answers.extend(update.params["w"].item() for update in updates)
        return mean(params, updates)

    strategy = fedavg.build()
    object.__setattr__(strategy, "aggregate", remember)
    settings = RoundSettings(100.0, 10, 5, chain_first_round=chained)
    run_round(number, START, COHORT, strategy, Echo({0: 1.0, 1: 4.0}), settings)
    assert answers == expected


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (None, "must return a LocalPlan, got NoneType"),
        (LocalPlan((Phase(0),), Path.FULL), "1 epoch or more, got 0"),
        (LocalPlan((Phase(-2),), Path.FULL), "1 epoch or more, got -2"),
        (LocalPlan((Phase(1, CoresetSpec(0, "uniform", "none")),), Path.FULL), "1 sample or more"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(plan, sentence):
    with pytest.raises(BadOption, match=sentence):
        checked(plan)
    assert checked(SIT_OUT) is SIT_OUT
