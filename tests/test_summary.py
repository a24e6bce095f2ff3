import dataclasses
import json

import pytest

from fedcore.history import History, summarise
from fedcore.records import ClientRecord, Ending, RoundRecord, RunKey
from fedcore.report.summary import summary
from fedcore.types import Way

KEY = RunKey("b", "fedcore", 30.0, 0)


def record(number, time, accuracy, test=True):
    clients = (
        ClientRecord(0, Way.FULL, 1, 5, time, None),
        ClientRecord(1, Way.CORESET, 1, 5, time, 3, fell_back=number == 2),
        ClientRecord(2, Way.SAT_OUT, 1, 0, 0.0, None),
    )
    return RoundRecord(
        number,
        time,
        1.0,
        clients,
        rejected=0,
        train_loss=1 / number,
        train_accuracy=accuracy,
        test_loss=None,
        test_accuracy=accuracy if test else None,
        wall_seconds=0.5,
    )


def summarised(rounds):
    return summarise(KEY, History(tuple(rounds)))


def test_by_hand():
    rounds = [record(n, 0.5, 0.1) for n in range(1, 10)]
    rounds += [record(10, 1.0, 0.4), record(11, 1.5, 0.8), record(12, 0.5, 0.6)]
    found = summarised(rounds)
    assert found["final_test_accuracy"] == 0.6
    assert found["best_test_accuracy"] == 0.8
    assert found["mean_test_accuracy_from_round_10"] == pytest.approx(0.6)
    assert found["final_train_loss"] == 1 / 12
    assert found["max_round_time"] == 1.5
    assert found["mean_round_time"] == pytest.approx((9 * 0.5 + 3) / 12)
    assert found["deadline_misses"] == 1  # 1.0 is on time
    assert found["deadline_miss_share"] == pytest.approx(1 / 12)
    assert found["mean_participants"] == 2
    assert found["fell_back"] == 1
    assert found["rounds"] == 12
    assert found["wall_seconds"] == 6


def test_before_round_10_there_is_no_mean_from_it_on():
    assert summarised([record(1, 0.5, 0.3)])["mean_test_accuracy_from_round_10"] is None


def test_without_test_data():
    found = summarised([record(1, 0.5, 0.3, test=False)])
    assert found["final_test_accuracy"] is None
    assert found["final_train_accuracy"] == 0.3


def test_a_summary_says_what_made_it_and_is_json():
    content = summary({KEY: [record(1, 0.5, 0.3)]}, {"rounds": 1})
    assert json.loads(json.dumps(content)) == content
    assert content["schema"] == 1
    assert content["experiment"] == {"rounds": 1}
    assert "torch" in content["environment"]
    assert [result["strategy"] for result in content["results"]] == ["fedcore"]


def test_targets_are_those_of_the_experiment_or_of_the_best_of_each_level():
    ending = Ending(10.0, 8, 3, 1, 0.5, 0.25)
    last = dataclasses.replace(record(2, 0.5, 0.8), ending=ending)
    other = RunKey("b", "fedavg", 10.0, 0)
    runs = {
        KEY: [record(1, 0.5, 0.75), last],
        other: [dataclasses.replace(last, test_accuracy=0.4)],
    }
    given, high = summary(runs, {"targets": (0.7,)})["results"]
    assert given["time_to_accuracy"] == [{"target": 0.7, "seconds": 5.0}]
    assert high["time_to_accuracy"] == [{"target": 0.7, "seconds": None}]
    first, second = summary(runs, {"targets": ()})["results"]
    assert [one["target"] for one in first["time_to_accuracy"]] == pytest.approx(
        [0.72, 0.76, 0.792]
    )
    assert [one["seconds"] for one in first["time_to_accuracy"]] == [5.0, 10.0, 10.0]
    assert [one["target"] for one in second["time_to_accuracy"]] == pytest.approx(
        [0.36, 0.38, 0.396]
    )


def test_a_result_names_its_step_size_and_a_grid_those_that_were_tried():
    (alone,) = summary({KEY: [record(1, 0.5, 0.3)]}, {"learning_rate": 0.03})["results"]
    assert alone["learning_rate"] == 0.03
    grid = {
        dataclasses.replace(KEY, learning_rate=rate): [
            dataclasses.replace(record(1, 0.5, 0.3), ending=Ending(1.0, 8, 3, 1, 0.5, 0.25, found))
        ]
        for rate, found in ((0.01, 0.5), (0.1, 0.75))
    }
    content = summary(grid, {"learning_rate": 0.01})
    assert [result["learning_rate"] for result in content["results"]] == [0.1]
    (choice,) = content["step_sizes"]
    assert (choice["learning_rate"], choice["edge"]) == (0.1, "largest")
    assert choice["tried"] == [[0.01, 0.5], [0.1, 0.75]]
    assert json.loads(json.dumps(content)) == content
