"""The library must be equal to the method written as straight Python in examples/."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch import nn

import fedcore
from fedcore.datasets import synthetic

EXAMPLE = Path(__file__).parents[2] / "examples" / "naive_fedcore.py"


def naive():
    spec = importlib.util.spec_from_file_location("naive_fedcore", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.naive_fedcore


@pytest.mark.parametrize("executor", ["sequential", "compiled"])
@pytest.mark.parametrize("stragglers", [30, 70])
def test_the_engine_is_equal_to_the_naive_method(executor, stragglers):
    """12 clients of Synthetic(1, 1), 3 rounds; at 70 % many cannot afford one pass."""
    data = synthetic.load(alpha=1, beta=1, clients=12, dimension=8, classes=4, seed=3)
    clients = [(c.x[:300], c.y[:300]) for c in data.clients.values()]
    torch.manual_seed(2)
    model = nn.Linear(8, 4)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    history = fedcore.simulate(
        clients,
        model,
        strategy="fedcore",
        stragglers=stragglers,
        seed=6,
        rounds=3,
        epochs=4,
        batch_size=8,
        clients_per_round=5,
        learning_rate=0.05,
        executor=executor,
    )
    paths = {client.path for record in history.rounds for client in record.clients}
    assert {"full", "coreset"} <= paths
    model.load_state_dict(start)
    trained = naive()(
        clients,
        model,
        rounds=3,
        cohort_size=5,
        epochs=4,
        batch_size=8,
        learning_rate=0.05,
        stragglers=stragglers,
        seed=6,
    )
    for name, value in trained.state_dict().items():
        assert torch.allclose(history.params[name], value, atol=2e-5)
        assert not torch.allclose(start[name], value, atol=1e-2)


def test_the_example_is_short_enough_to_read():
    lines = EXAMPLE.read_text().splitlines()
    code = [line for line in lines if line.strip() and not line.strip().startswith("#")]
    assert len(code) <= 125
