"""What samplers with a memory have in common: they fit on a page, and go on as if never stopped."""

import dataclasses
import pathlib

import pytest
import torch

from fedcore.config import Experiment
from fedcore.records import RunKey
from fedcore.server import samplers
from fedcore.server.method import table
from fedcore.server.state import to_snapshot
from fedcore.sim.federation import federation_from_model
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.types import FederatedDataset

FOLDER = pathlib.Path(samplers.__file__).parent
LINES = {"oort": 150, "tifl": 150, "power-of-choice": 60}


def test_a_table_grows_and_is_a_copy():
    memory = {"seen": torch.ones(1, 2, dtype=torch.float64)}
    found = table(memory, "seen", 3, 2)
    assert found.tolist() == [[1, 1], [0, 0], [0, 0]]
    found += 1
    assert memory["seen"].tolist() == [[1, 1]]
    assert table({}, "seen", 1, 2).tolist() == [[0, 0]]


@pytest.mark.parametrize("name", LINES)
def test_it_fits_on_its_pages(name):
    text = (FOLDER / f"{name.replace('-', '_')}.py").read_text()
    assert len(text.splitlines()) <= LINES[name]


@pytest.mark.parametrize("name", LINES)
def test_a_run_goes_on_from_a_snapshot_as_if_it_had_never_stopped(name, build_client):
    clients = {i: build_client(20 + 15 * i, seed=i) for i in range(8)}
    data = FederatedDataset(clients, build_client(50), 2)
    federation = federation_from_model(data, "logistic", 0)
    method = {"interval": 2} if name == "tifl" else {}
    method |= {"pacer_window": 2} if name == "oort" else {}
    experiment = Experiment(
        rounds=10, epochs=3, clients_per_round=3, learning_rate=0.1, selection=name, method=method
    )

    def run(start=None):
        strategy = build_strategy("fedcore", experiment, federation.proxy)
        world = build_world(federation, experiment, RunKey("test", "own", 30.0, 0), strategy)
        return list(simulate_rounds(world, start))

    def untimed(result):
        return [dataclasses.replace(record, wall_seconds=0.0) for record, _ in result]

    whole = run()
    rest = run(to_snapshot(whole[4][1]))
    assert untimed(rest) == untimed(whole)[5:]
    for key, value in whole[-1][1].sampler.items():
        assert torch.equal(rest[-1][1].sampler[key], value)
    assert whole[-1][1].sampler
