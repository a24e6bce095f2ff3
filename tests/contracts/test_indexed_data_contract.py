"""Samples reached through ``rows`` train and score exactly like the same samples in memory."""

import numpy as np
import pytest
import torch
from torch import nn

from fedcore.config import Experiment
from fedcore.errors import BadData
from fedcore.records import RunKey
from fedcore.sim.federation import check_dataset, federate
from fedcore.sim.measure import pool
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.types import ClientData, FederatedDataset


def datasets() -> tuple[FederatedDataset, FederatedDataset]:
    """The same four clients, once by rows of one large table, once copied out of it."""
    draw = np.random.default_rng(0)
    x = torch.from_numpy(draw.normal(size=(200, 4))).float()
    y = torch.from_numpy(draw.integers(3, size=200))
    rows = torch.from_numpy(draw.permutation(200)).split([30, 20, 60, 40, 50])
    indexed = [ClientData(x, y, part) for part in rows]
    plain = [ClientData(x[part], y[part]) for part in rows]
    return tuple(
        FederatedDataset(dict(enumerate(data[:4])), data[4], 3) for data in (indexed, plain)
    )


def run(dataset, model, executor):
    torch.manual_seed(0)
    federation = federate(dataset, model())
    experiment = Experiment(rounds=2, epochs=3, clients_per_round=4, executor=executor)
    strategy = build_strategy("fedcore", experiment, federation.proxy)
    key = RunKey("own", "fedcore", 30.0, 0)
    world = build_world(federation, experiment, key, strategy)
    return [(record, state.params) for record, state in simulate_rounds(world)]


@pytest.mark.parametrize(
    ("model", "executor"),
    [
        (lambda: nn.Linear(4, 3), "sequential"),
        (lambda: nn.Linear(4, 3), "auto"),
        (lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)), "sequential"),
    ],
)
def test_rows_change_nothing(model, executor):
    indexed, plain = (run(dataset, model, executor) for dataset in datasets())
    for (one, params), (two, expected) in zip(indexed, plain, strict=True):
        assert (one.train_loss, one.test_accuracy) == (two.train_loss, two.test_accuracy)
        assert all(torch.equal(params[name], expected[name]) for name in params)


def test_pooled_rows_are_the_pooled_samples():
    indexed, plain = (pool(dataset.clients.values()) for dataset in datasets())
    assert torch.equal(indexed.x, plain.x)
    assert torch.equal(indexed.y, plain.y)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([0, 200], "must be positions of samples, from 0 to 199, got 200"),
        ([-1], "must be positions of samples, from 0 to 199, got -1"),
        ([0.5], "must be whole numbers, got 0.5"),
        ([[0]], "must be one position each, got shape"),
        ([True] * 200, "must be positions of samples, from 0 to 199, got a mask"),
    ],
)
def test_rows_that_are_not_there_are_refused(rows, sentence):
    dataset, _ = datasets()
    clients = {0: ClientData(dataset.test.x, dataset.test.y, torch.tensor(rows))}
    with pytest.raises(BadData, match=f"rows of client 0 {sentence}"):
        check_dataset(FederatedDataset(clients, None, 3))


def test_only_labels_that_are_used_must_be_right():
    labels = torch.tensor([0, 1, 99])
    data = ClientData(torch.zeros(3, 1), labels, torch.tensor([0, 1]))
    check_dataset(FederatedDataset({0: data}, None, 2))
    with pytest.raises(BadData, match="client 0 has label 99"):
        check_dataset(FederatedDataset({0: ClientData(data.x, labels)}, None, 2))
