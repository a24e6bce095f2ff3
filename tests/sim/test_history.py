from fedcore.records import RoundRecord
from fedcore.sim.history import History


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
