"""Every number by hand: rounds of 4 seconds are one deadline long, and the model has 100 bytes."""

import dataclasses
import json

import pytest

from fedcore.cli.grid import run_grid
from fedcore.config import Experiment
from fedcore.history import History
from fedcore.records import ClientRecord, Ending, RoundRecord, Waste
from fedcore.report.summary import costs, jain, targets_of
from fedcore.types import Way

END = Ending(4.0, 100, clients=5, slow_clients=2, slow_accuracy=0.25, worst_accuracy=0.0)


def client(number, seconds, copies=1, work=10, wasted=None, staleness=0):
    path = Way.FULL if work else Way.SAT_OUT
    kept = {"wasted": wasted, "staleness": staleness}
    return ClientRecord(number, path, copies, work, seconds, None, **kept)


def a_round(number, seconds, accuracy, *clients, ending=None, deadline=4.0):
    measured = (None, None, None, accuracy)
    return RoundRecord(number, seconds, deadline, clients, 0, *measured, 0.0, ending=ending)


ROUNDS = [
    a_round(1, 2.0, 0.5, client(0, 2.0), client(1, 1.0, copies=2), client(2, 0.0, work=0)),
    a_round(2, 6.0, 0.8, client(0, 6.0, staleness=1), client(3, 3.0, wasted=Waste.CANCELLED)),
    a_round(
        3, 4.0, 0.7, client(1, 4.0, staleness=3), client(0, 2.0, wasted=Waste.REJECTED), ending=END
    ),
]


def in_deadlines(rounds):
    """As a file has them: a deadline lasts 1."""
    return [
        dataclasses.replace(
            record,
            seconds=record.time,
            deadline=1.0,
            clients=tuple(
                dataclasses.replace(c, seconds=c.seconds / record.deadline) for c in record.clients
            ),
        )
        for record in rounds
    ]


def test_by_hand():
    found = costs(ROUNDS, (0.5, 0.8, 0.81))
    assert found["time_to_accuracy"] == [
        {"target": 0.5, "seconds": 2.0},
        {"target": 0.8, "seconds": 8.0},  # the first evaluation at or above it
        {"target": 0.81, "seconds": None},
    ]
    assert found["virtual_seconds"] == 12.0
    assert found["client_seconds"] == 2 + 1 + 6 + 3 + 4 + 2
    assert found["wasted_client_seconds"] == 3 + 2
    assert found["bytes_down"] == 600  # the one that sat out fetched nothing
    assert found["bytes_up"] == 500  # the one that was cancelled sent nothing
    # Merged: client 0 twice, client 1 three times, of five clients.
    assert found["participation_fairness"] == pytest.approx(25 / (5 * 13))
    assert found["mean_staleness"] == pytest.approx((0 + 0 + 1 + 3) / 4)
    assert found["largest_staleness"] == 3
    expected = {"slow_clients": 2, "slow_accuracy": 0.25, "worst_accuracy": 0.0, "clients": 5}
    assert found.items() >= expected.items()
    assert found["deadline_seconds"] == 4.0


def test_what_was_read_from_disk_costs_the_same():
    assert costs(in_deadlines(ROUNDS), (0.5, 0.8)) == costs(ROUNDS, (0.5, 0.8))


def test_without_an_ending_nothing_is_known():
    assert costs(ROUNDS[:2], (0.5,)) == {}


def test_where_every_answer_is_fresh_there_is_no_staleness():
    found = costs([a_round(1, 2.0, 0.5, client(0, 2.0), ending=END)], ())
    assert (found["mean_staleness"], found["largest_staleness"]) == (None, None)


@pytest.mark.parametrize(
    ("values", "count", "expected"),
    [
        ([3, 3, 3, 3], 4, 1.0),
        ([7], 4, 0.25),  # one has all
        ([1, 2, 3], 3, 36 / 42),
        ([1, 2, 3], 6, 36 / 84),
        ([], 4, None),
        ([0, 0], 4, None),
    ],
)
def test_jain_by_hand(values, count, expected):
    assert jain(values, count) == (None if expected is None else pytest.approx(expected))


def test_an_accuracy_that_was_not_measured_reaches_nothing():
    rounds = [a_round(1, 4.0, None), a_round(2, 4.0, 0.9)]
    assert History(tuple(rounds)).time_to(0.1) == 2.0
    assert History(tuple(rounds[:1])).time_to(0.1) is None


def test_default_targets_are_shares_of_the_best_median_of_final_accuracies():
    first = [[a_round(1, 1, 0.99), a_round(2, 1, a)] for a in (0.2, 0.6, 0.8)]
    second = [[a_round(1, 1, a)] for a in (0.1, 0.5, 0.9)]
    assert targets_of([first, second]) == pytest.approx((0.54, 0.57, 0.594))
    assert targets_of([[[a_round(1, 1, None)]]]) == ()
    assert targets_of([[[a_round(1, 1, 0.0)]]]) == ()  # which everybody has from the start


def test_what_a_budget_of_time_cut_short_was_not_merged():
    clients = (client(4, 1.0), client(2, 0.5, wasted=Waste.CANCELLED))
    cut = dataclasses.replace(a_round(3, 1.0, 0.8, *clients, ending=END), cut=True)
    found = costs([*ROUNDS[:2], cut], ())
    # Merged: client 0 twice and client 1 twice, of five clients; client 4 was not.
    assert found["participation_fairness"] == pytest.approx(16 / (5 * 8))
    assert found["client_seconds"] == 2 + 1 + 6 + 3 + 1 + 0.5
    assert found["wasted_client_seconds"] == 3  # what the end of the run stopped is not wasted
    assert found["virtual_seconds"] == 9.0


def test_who_sends_a_part_of_a_model_is_charged_for_that(tmp_path):
    model, out = tmp_path / "two_layers.py", tmp_path / "out"
    model.write_text(
        "from torch import nn\n"
        "def build(sample, classes):\n"
        "    return nn.Sequential(nn.Linear(60, 16), nn.ReLU(), nn.Linear(16, classes))\n"
    )
    options = {"model": str(model), "upload": 2000.0, "download": 4000.0, "rounds": 4, "epochs": 3}
    run_grid(Experiment(strategies=("timelyfl",), stragglers=(60.0,), **options), out)
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    (found,) = json.loads((out / "summary.json").read_text())["results"]
    answered = [one["bytes_up"] for one in events if one["event"] in ("done", "late")]
    assert found["bytes_up"] == sum(answered) < found["model_bytes"] * len(answered)
