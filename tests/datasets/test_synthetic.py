import numpy as np
import pytest
import torch

from fedcore.datasets.synthetic import hyperparameters, load, parse
from fedcore.errors import BadOption


def test_the_papers_table_1():
    """30 clients, 20,101 training samples, mean 670, population standard deviation 1,148."""
    sizes = np.array([len(client) for client in load().clients.values()])
    assert len(sizes) == 30
    assert sizes.sum() == 20_101
    assert round(sizes.mean()) == 670
    assert round(sizes.std()) == 1_148
    assert sizes.sum() + len(load().test) == 22_349


@pytest.mark.parametrize("shape", [(0, 0), (0.5, 0.5), (1, 1), (2, 0.1)])
def test_sizes_are_the_same_for_every_alpha_and_beta(shape):
    sizes = [len(client) for client in load(alpha=shape[0], beta=shape[1]).clients.values()]
    assert sum(sizes) == 20_101


def test_labels_follow_from_a_linear_model_per_client():
    """y = argmax(xW + b): a linear classifier can tell a client's classes apart exactly."""
    draw = np.random.RandomState(0)
    draw.lognormal(4, 2, 30)
    means = draw.normal(0, 1, 30)
    inputs = draw.normal(0, 1, 30)
    for mean in inputs:
        draw.normal(mean, 1, 60)
    weight, bias = draw.normal(means[0], 1, (60, 10)), draw.normal(means[0], 1, 10)
    client = load(alpha=1, beta=1).clients[0]
    assert (np.argmax(client.x.double().numpy() @ weight + bias, axis=1) == client.y.numpy()).all()


def test_any_number_of_clients_dimension_and_classes():
    data = load(clients=7, dimension=5, classes=3, seed=4)
    assert len(data.clients) == 7
    assert data.clients[0].x.shape[1] == 5
    assert data.num_classes == 3
    assert max(int(client.y.max()) for client in data.clients.values()) <= 2


def test_inputs_vary_by_dimension_as_the_recipe_says():
    """Variance of dimension j is j^-1.2; the largest client has 4,645 samples."""
    x = max(load().clients.values(), key=len).x.double()
    expected = torch.arange(1, 61) ** -1.2
    assert torch.allclose(x.var(dim=0), expected.double(), rtol=0.12)


@pytest.mark.parametrize(
    ("suffix", "expected"),
    [("", (1, 1)), ("0-0", (0, 0)), ("0.5-0.5", (0.5, 0.5)), ("2-0.25", (2, 0.25))],
)
def test_names(suffix, expected):
    assert tuple(parse(suffix).values()) == expected


@pytest.mark.parametrize("suffix", ["1", "a-b", "1-1-1", "1_1", "１-1"])
def test_a_name_that_is_none_is_refused(suffix):
    with pytest.raises(BadOption, match=f"got 'synthetic-{suffix}'"):
        parse(suffix)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"alpha": -1.0}, "alpha must be a number of at least 0, got -1"),
        ({"beta": float("nan")}, "beta must be"),
        ({"clients": 0}, "clients must be at least 1, got 0"),
        ({"dimension": 0}, "dimension must be at least 1"),
        ({"classes": 1}, "classes must be at least 2, got 1"),
        ({"clients": "abc"}, "clients must be a whole number, got 'abc'"),
        ({"clients": 2.5}, "clients must be a whole number, got 2.5"),
        ({"clients": 1e3}, "clients must be a whole number, got 1000.0"),
        ({"clients": 10**12}, "clients must be at most 1,000,000"),
        ({"dimension": "60x"}, "dimension must be a whole number, got '60x'"),
        ({"alpha": "abc"}, "alpha must be a number of at least 0, got 'abc'"),
    ],
)
def test_impossible_options_are_refused(options, sentence):
    with pytest.raises(BadOption, match=sentence):
        load(**options)


def test_presets():
    assert hyperparameters("paper", 1, 1)["learning_rate"] == 0.001
    assert "seed" not in hyperparameters("paper", 1, 1)
    assert hyperparameters("authors-code", 0, 0)["seed"] == (2,)
    assert "seed" not in hyperparameters("authors-code", 3, 0)


def test_another_seed_draws_other_sizes():
    first, other = (load(clients=5, dimension=4, seed=seed) for seed in (0, 1))
    assert len(first.clients[0]) != len(other.clients[0])
