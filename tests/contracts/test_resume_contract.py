"""Every strategy, stopped after any merge and gone on with by another process, ends the same."""

import dataclasses

import pytest
import torch
from torch import nn

from fedcore import plugins
from fedcore.config import Experiment
from fedcore.records import RunKey
from fedcore.server.state import to_snapshot
from fedcore.sim.federation import federate
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.types import FederatedDataset

SMALL = Experiment(
    rounds=7,
    epochs=2,
    clients_per_round=3,
    learning_rate=0.1,
    selection="uniform",
    method={"buffer": 2, "dyn_alpha": 1.0},
)


@pytest.fixture
def federation(build_client):
    clients = {i: build_client(16 + 8 * i, seed=i) for i in range(6)}
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))  # some train a part of it
    return federate(FederatedDataset(clients, None, 2), model)


def simulated(federation, name, start=None):
    there = (federation.proxy, len(federation.dataset.clients), federation.model_bytes)
    strategy = build_strategy(name, SMALL, *there)
    world = build_world(federation, SMALL, RunKey("test", name, 30.0, 0), strategy)
    return list(simulate_rounds(world, start))


def untimed(result):
    return [dataclasses.replace(record, wall_seconds=0.0) for record, _ in result]


@pytest.mark.parametrize("name", plugins.names("strategy"))
def test_a_run_that_goes_on_is_the_run_that_never_stopped(federation, name):
    whole = simulated(federation, name)
    assert untimed(simulated(federation, name)) == untimed(whole)  # two runs are one
    for stopped in (1, 4, 6):
        rest = simulated(federation, name, to_snapshot(whole[stopped - 1][1]))
        assert untimed(rest) == untimed(whole)[stopped:]
        one, other = rest[-1][1], whole[-1][1]
        for group in ("params", "tensors"):
            mine, theirs = getattr(one, group), getattr(other, group)
            assert mine.keys() == theirs.keys()
            assert all(torch.equal(mine[key], theirs[key]) for key in mine)
        assert one.clients.keys() == other.clients.keys()
        for client, own in one.clients.items():
            assert all(torch.equal(own[key], other.clients[client][key]) for key in own)
