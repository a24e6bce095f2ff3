"""Merges by hand: one number for a model, answers with what their formulas need."""

import pytest
import torch

from fedcore.config import Experiment
from fedcore.records import RunKey
from fedcore.server.state import ServerState
from fedcore.sim.federation import federation_from_model
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.types import FederatedDataset, LocalUpdate


def vector(*numbers):
    return {"w": torch.tensor(numbers)}


@pytest.fixture
def state_of():
    """state_of(w, version, tensors={name: number}, clients={id: number}): a state of one number."""

    def build(value, version=0, tensors=None, clients=None):
        kept = {name: torch.tensor([number]) for name, number in (tensors or {}).items()}
        known = {client: vector(number) for client, number in (clients or {}).items()}
        return ServerState(vector(value), version, kept, known)

    return build


@pytest.fixture
def merged():
    """merged(strategy, state, (client, w_i, w it began from, other fields of the answer), ...)."""

    def merge(strategy, state, *answers):
        merging = strategy.merge(state)
        for client, value, base, known in answers:
            fields = {"num_samples": 10, "base_version": state.version, "steps": 1, **known}
            merging.add(LocalUpdate(client, vector(value), **fields), vector(base))
        return merging.finish()

    return merge


SMALL = Experiment(rounds=6, epochs=3, clients_per_round=3, learning_rate=0.1, selection="uniform")


@pytest.fixture
def federation(build_client):
    clients = {i: build_client(20 + 15 * i, seed=i) for i in range(6)}
    return federation_from_model(FederatedDataset(clients, build_client(50), 2), "logistic", 0)


@pytest.fixture
def simulated(federation):
    """simulated(strategy or its name, start, options): all rounds of a small run."""

    def run(strategy, start=None, within=federation, **options):
        experiment = Experiment(**{**vars(SMALL), **options})
        if isinstance(strategy, str):
            count = len(within.dataset.clients)
            strategy = build_strategy(strategy, experiment, within.proxy, count, within.model_bytes)
        world = build_world(within, experiment, RunKey("test", "own", 30.0, 0), strategy)
        return list(simulate_rounds(world, start))

    return run
