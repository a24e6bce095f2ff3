"""Measuring some rounds, ending early, and being told to end."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from fedcore import simulate
from fedcore.cli.grid import run_grid
from fedcore.config import resolve
from fedcore.errors import BadOption
from fedcore.sim.measure import Measure, Score

DRAW = np.random.default_rng(0)
CLIENTS = [(DRAW.normal(size=(20, 3)), DRAW.integers(2, size=20)) for _ in range(4)]
TEST = (DRAW.normal(size=(40, 3)), DRAW.integers(2, size=40))
OPTIONS = {"rounds": 7, "epochs": 2, "clients_per_round": 2, "learning_rate": 0.05}


def model():
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def test_rounds_between_measurements_are_not_measured_and_nothing_else_changes():
    every, some = (
        simulate(CLIENTS, model(), test=TEST, evaluate_every=k, **OPTIONS) for k in (1, 3)
    )
    measured = [record.number for record in some.rounds if record.test_accuracy is not None]
    assert measured == [3, 6, 7]  # the last always is
    for one, other in zip(every.rounds, some.rounds, strict=True):
        assert one.clients == other.clients
        if other.number in measured:
            assert (one.test_loss, one.train_loss) == (other.test_loss, other.train_loss)
        else:
            assert other.train_loss is None
    assert all(torch.equal(every.params[name], some.params[name]) for name in every.params)
    assert some.rounds[-1].ending is not None


@pytest.fixture
def scores(monkeypatch):
    """Test accuracies that are given: 0.1, 0.5, 0.4, 0.5, 0.3, 0.9, ..."""
    values = itertools.cycle((0.1, 0.5, 0.4, 0.5, 0.3, 0.9, 0.2))
    monkeypatch.setattr(Measure, "test", lambda *_: Score(1.0, next(values)))


@pytest.mark.parametrize(("patience", "rounds"), [(0, 7), (1, 3), (2, 4), (3, 5), (4, 7)])
def test_patience_counts_measurements_since_the_first_best(scores, patience, rounds):
    found = simulate(CLIENTS, model(), test=TEST, patience=patience, **OPTIONS)
    assert len(found.rounds) == rounds
    assert [record.ending is not None for record in found.rounds] == [False] * (rounds - 1) + [True]


def test_who_is_told_false_ends_with_its_history():
    kept = []

    def on_round(record):
        kept.append(record)
        return len(kept) < 3

    found = simulate(CLIENTS, model(), test=TEST, on_round=on_round, **OPTIONS)
    assert found.rounds == tuple(kept)
    assert len(kept) == 3


def test_patience_needs_held_out_data():
    with pytest.raises(BadOption, match="patience 2 needs held-out data; pass test="):
        simulate(CLIENTS, model(), patience=2, **OPTIONS)
    with pytest.raises(BadOption, match="evaluate_every must be"):
        simulate(CLIENTS, model(), evaluate_every=0, **OPTIONS)


def test_a_run_that_patience_ended_is_over_when_it_goes_on(tmp_path):
    given = {"benchmark": "synthetic-0-0", "strategies": ("fedprox",), "stragglers": (30.0,)}
    given |= {"rounds": 12, "epochs": 1, "patience": 2, "seed": (0, 1), "learning_rate": 1e-6}
    given |= {"evaluate_every": 2, "batch_size": 64}
    experiment = resolve(given, lambda name, preset: {})
    _, whole = run_grid(experiment, tmp_path / "whole")
    assert all(len(rounds) < 12 and rounds[-1].ending for rounds in whole.values())

    class Stop(Exception):
        pass

    def tell(run, done, share):
        if (run.seed, done) == (1, 2):
            raise Stop

    with pytest.raises(Stop):
        run_grid(experiment, tmp_path / "cut", tell=tell)
    _, again = run_grid(experiment, tmp_path / "cut", resume=True)
    for run, rounds in whole.items():
        found = [(one.number, one.test_accuracy, one.train_loss) for one in again[run]]
        assert found == [(one.number, one.test_accuracy, one.train_loss) for one in rounds]
