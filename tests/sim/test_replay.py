import dataclasses

import pytest

from fedcore.cli.grid import prepare
from fedcore.config import Experiment
from fedcore.history import History
from fedcore.records import RunKey
from fedcore.sim.world import train_run

SMALL = Experiment(
    rounds=3,
    epochs=2,
    clients_per_round=4,
    data={"clients": 8},
    metrics=("f1",),
    device="cpu",
    threads=1,
)


def rounds(level, known=None):
    experiment = dataclasses.replace(SMALL, stragglers=(level,), strategies=("fedavg",))
    run = RunKey("synthetic-1-1", "fedavg", level, 0)
    federation = prepare(experiment)[0]
    found = list(train_run(federation, experiment, run, known=known))
    params = {name: value.clone() for name, value in found[-1][1].params.items()}
    return History(tuple(record for record, _ in found), params)


def without_real_time(record):
    return dataclasses.replace(record, wall_seconds=0.0)


@pytest.mark.parametrize("levels", [(10.0, 30.0), (30.0, 10.0)])
def test_what_goes_by_time_is_simulated_and_the_rest_is_known(levels):
    known, trained = (rounds(level) for level in levels)
    replayed = rounds(levels[1], known)
    assert list(map(without_real_time, replayed.rounds)) == list(
        map(without_real_time, trained.rounds)
    )
    assert "f1" in replayed.rounds[-1].metrics
    assert [r.events for r in replayed.rounds] == [r.events for r in trained.rounds]
    assert replayed.rounds[0].deadline != known.rounds[0].deadline
    assert replayed.rounds[-1].ending.slow_clients != known.rounds[-1].ending.slow_clients


def test_a_loss_that_diverged_stays_unknown():
    known = rounds(10.0)
    lost = [dataclasses.replace(record, train_loss=None, test_loss=None) for record in known.rounds]
    replayed = rounds(30.0, History(tuple(lost), known.params))
    assert [r.train_loss for r in replayed.rounds] == [None] * 3
    assert [r.test_accuracy for r in replayed.rounds] == [r.test_accuracy for r in known.rounds]
