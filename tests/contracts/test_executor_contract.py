"""Every executor gives what the plain loop gives, for every strategy, over several rounds."""

import dataclasses

import pytest
import torch

from fedcore import plugins
from fedcore.config import Experiment
from fedcore.sim.federation import federation_from_model
from fedcore.sim.rounds import build_strategy, simulate_rounds
from fedcore.types import FederatedDataset, RunKey

EXECUTORS = {"logistic": ["compiled"], "logistic-sigmoid": ["compiled"]}
SMALL = Experiment(
    rounds=3, epochs=4, clients_per_round=4, learning_rate=0.1, batch_size=8, prox_mu=0.3
)


def final(federation, strategy, executor, **options):
    experiment = dataclasses.replace(SMALL, executor=executor, **options)
    method = build_strategy(strategy, experiment, federation.proxy)
    run = RunKey("test", strategy, 40.0, 0)
    *_, (record, params) = simulate_rounds(federation, experiment, run, strategy=method)
    return record, params


@pytest.mark.parametrize("strategy", plugins.names("strategy"))
@pytest.mark.parametrize(
    ("model", "executor"), [(model, e) for model, all_of in EXECUTORS.items() for e in all_of]
)
def test_equal_to_the_plain_loop(model, executor, strategy, build_client):
    """Sizes that leave partial batches, one client below a batch, one that never fits a pass."""
    clients = {i: build_client(size, 5, 3, seed=i) for i, size in enumerate((3, 17, 40, 90, 400))}
    federation = federation_from_model(
        FederatedDataset(clients, build_client(30, 5, 3), 3), model, 1
    )
    plain_record, plain = final(federation, strategy, "sequential")
    record, params = final(federation, strategy, executor)
    for name in plain:
        assert torch.allclose(params[name], plain[name], atol=2e-5)
    assert record.clients == plain_record.clients
    assert record.train_loss == pytest.approx(plain_record.train_loss, abs=1e-5)


@pytest.mark.parametrize("weighting", ["scaled", "normalised", "proportional"])
def test_equal_under_every_weighting(weighting, build_client):
    clients = {i: build_client(size, 5, 3, seed=i) for i, size in enumerate((30, 60, 200))}
    federation = federation_from_model(FederatedDataset(clients, None, 3), "logistic", 1)
    _, plain = final(federation, "fedcore", "sequential", weighting=weighting)
    _, params = final(federation, "fedcore", "compiled", weighting=weighting)
    assert all(torch.allclose(params[name], plain[name], atol=2e-5) for name in plain)
