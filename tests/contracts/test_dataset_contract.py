"""What every dataset must do, whatever its name."""

import pytest
import torch

from fedcore import plugins
from fedcore.config import PRESETS, resolve
from fedcore.data._benchmark import find
from fedcore.sim.federation import check_dataset

NAMES = ["synthetic-0-0", "synthetic-0.5-0.5", "synthetic-1-1"]

pytestmark = pytest.mark.parametrize("name", NAMES)


def load(name, seed=0):
    return find(name).load(seed=seed, data_dir=None, options={})


def test_it_can_be_trained_on(name):
    data = load(name)
    check_dataset(data)
    assert data.test is not None
    for client in data.clients.values():
        assert client.y.dtype == torch.int64


def test_no_sample_is_in_training_and_test(name):
    data = load(name)
    train = {tuple(row) for client in data.clients.values() for row in client.x.tolist()}
    assert not train & {tuple(row) for row in data.test.x.tolist()}


def test_the_same_seed_gives_the_same_data(name):
    first, second, other = load(name), load(name), load(name, seed=1)
    assert all(torch.equal(first.clients[i].x, second.clients[i].x) for i in first.clients)
    assert len(first.clients[0]) != len(other.clients[0])


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_complete_and_valid(name, preset):
    found = resolve({"benchmark": name, "preset": preset}, lambda b, p: find(b).hyperparameters(p))
    assert found.model in plugins.names("model")
