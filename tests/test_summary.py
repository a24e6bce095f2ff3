import json

import pytest

from fedcore.history import History, summarise, summary
from fedcore.records import ClientRecord, RoundRecord, RunKey
from fedcore.types import Path

KEY = RunKey("b", "fedcore", 30.0, 0)


def record(number, time, accuracy, test=True):
    clients = (
        ClientRecord(0, Path.FULL, 1, 5, time, None),
        ClientRecord(1, Path.CORESET, 1, 5, time, 3, fell_back=number == 2),
        ClientRecord(2, Path.SAT_OUT, 1, 0, 0.0, None),
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
