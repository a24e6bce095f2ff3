import json

import pytest

from fedcore.records import RunKey
from fedcore.report.summary import summarise, summary

KEY = RunKey("b", "fedcore", 30.0, 0)


def row(number, time, accuracy):
    return {
        "benchmark": "b",
        "strategy": "fedcore",
        "stragglers": 30.0,
        "seed": 0,
        "round": number,
        "round_time": time,
        "train_loss": 1 / number,
        "train_accuracy": accuracy,
        "test_accuracy": accuracy,
        "participants": 2,
        "rejected": 0,
        "wall_seconds": 0.5,
    }


def test_by_hand():
    rows = [row(n, 0.5, 0.1) for n in range(1, 10)]
    rows += [row(10, 1.0, 0.4), row(11, 1.5, 0.8), row(12, 0.5, 0.6)]
    found = summarise(KEY, rows)
    assert found["final_test_accuracy"] == 0.6
    assert found["best_test_accuracy"] == 0.8
    assert found["mean_test_accuracy_from_round_10"] == pytest.approx(0.6)
    assert found["final_train_loss"] == 1 / 12
    assert found["max_round_time"] == 1.5
    assert found["mean_round_time"] == pytest.approx((9 * 0.5 + 3) / 12)
    assert found["deadline_misses"] == 1  # 1.0 is on time
    assert found["deadline_miss_share"] == pytest.approx(1 / 12)
    assert found["rounds"] == 12
    assert found["wall_seconds"] == 6


def test_before_round_10_there_is_no_mean_from_it_on():
    assert summarise(KEY, [row(1, 0.5, 0.3)])["mean_test_accuracy_from_round_10"] is None


def test_without_test_data():
    found = summarise(KEY, [{**row(1, 0.5, 0.3), "test_accuracy": None}])
    assert found["final_test_accuracy"] is None
    assert found["final_train_accuracy"] == 0.3


def test_a_summary_says_what_made_it_and_is_json():
    content = summary([row(1, 0.5, 0.3)], {"rounds": 1})
    assert json.loads(json.dumps(content)) == content
    assert content["schema"] == 1
    assert content["experiment"] == {"rounds": 1}
    assert "torch" in content["environment"]
    assert [result["strategy"] for result in content["results"]] == ["fedcore"]
