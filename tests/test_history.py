import dataclasses
from importlib import metadata

import pytest

from fedcore import history
from fedcore.compiled import have_numba
from fedcore.history import History
from fedcore.records import RoundRecord


def record(number, time, accuracy):
    return RoundRecord(number, 2 * time, 2.0, (), 0, 1 / number, 0.5, 0.5, accuracy, 0.0)


def test_by_hand():
    history = History((record(1, 0.5, 0.2), record(2, 1.0, 0.9), record(3, 1.5, 0.6)), {})
    assert history.final_test_accuracy == 0.6
    assert history.best_test_accuracy == 0.9
    assert history.final_train_loss == 1 / 3
    assert history.mean_round_time == 1.0
    assert history.longest_round == 1.5
    assert history.deadline_misses == 1
    assert history.steady_accuracy("test") is None  # of rounds from 10 on


def test_a_round_that_a_budget_of_time_cut_is_no_length_of_a_round():
    rest = dataclasses.replace(record(3, 0.01, 0.9), cut=True)
    assert History((record(1, 0.5, 0.2), record(2, 1.5, 0.9), rest)).mean_round_time == 1.0
    assert History((rest,)).mean_round_time == 0.01


def test_the_paper_averages_from_round_10_on():
    rounds = [record(n, 1.0, 0.1) for n in range(1, 10)]
    rounds += [record(10, 1.0, 0.4), record(11, 1.0, 0.8), record(12, 1.0, 0.6)]
    assert History(tuple(rounds)).steady_accuracy("test") == pytest.approx(0.6)


def test_what_nobody_measured_is_none():
    rounds = [RoundRecord(n, 1.0, 2.0, (), 0, None, None, None, None, 0.0) for n in range(1, 12)]
    history = History(tuple(rounds))
    assert history.final_train_loss is None
    assert history.final_test_accuracy is None
    assert history.best_test_accuracy is None
    assert history.steady_accuracy("train") is None


@pytest.mark.parametrize("there", [False, True])
def test_who_trained_says_whether_numba_did(monkeypatch, there):
    """Compiled loops sum in another order, so numba is one of what can change a result."""
    if there and not have_numba():
        pytest.skip("numba is not installed")
    monkeypatch.setattr(history, "have_numba", lambda: there)
    history._source_and_processor.cache_clear()
    found = history.environment()["numba"]
    history._source_and_processor.cache_clear()
    assert found == (metadata.version("numba") if there else "none")


def test_a_hidden_device_is_not_asked_for_its_name(monkeypatch):
    """One that was used before, as in tests of what happens without one."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    assert history.environment()["device"] == "cpu"
