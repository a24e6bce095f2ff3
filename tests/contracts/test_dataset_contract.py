"""What every dataset must do, whatever its name."""

import inspect

import pytest
import torch

from fedcore import plugins
from fedcore.config import PRESETS, resolve
from fedcore.sim.federation import check_dataset
from fedcore.sources.benchmark import benchmark_names, find

# Files that are fetched have a source; LEAF's and Hugging Face's are the user's own.
OWN_FILES = ("leaf", "hf:NAME")
WITHOUT_FILES = [
    name
    for name in benchmark_names()
    if name not in OWN_FILES and not hasattr(find(name).module, "SOURCE")
]

every_benchmark = pytest.mark.parametrize("name", benchmark_names())
every_generated = pytest.mark.parametrize("name", WITHOUT_FILES)


def load(name, seed=0):
    return find(name).load(seed=seed, data_dir=None, options={})


def inputs(data):
    return data.take(slice(None))[0].flatten(1)


def test_some_data_is_generated():
    assert {"synthetic-0-0", "synthetic-0.5-0.5", "synthetic-1-1"} <= set(WITHOUT_FILES)


@every_generated
def test_it_can_be_trained_on(name):
    data = load(name)
    check_dataset(data)
    assert data.test is not None
    for client in data.clients.values():
        assert client.y.dtype == torch.int64


@every_generated
def test_no_sample_is_in_training_and_test(name):
    data = load(name)
    train = {tuple(row) for client in data.clients.values() for row in inputs(client).tolist()}
    assert not train & {tuple(row) for row in inputs(data.test).tolist()}


@every_generated
def test_the_same_seed_gives_the_same_data(name):
    first, second, other = load(name), load(name), load(name, seed=1)
    for client in first.clients:
        assert torch.equal(inputs(first.clients[client]), inputs(second.clients[client]))
        assert torch.equal(first.clients[client].labels, second.clients[client].labels)
    some = next(iter(first.clients))
    assert not torch.equal(inputs(first.clients[some]), inputs(other.clients[some]))


@every_benchmark
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_over_and_valid(name, preset):
    found = resolve({"benchmark": name, "preset": preset}, lambda b, p: find(b).hyperparameters(p))
    assert found.model in plugins.names("model")


@every_benchmark
def test_it_is_loaded_by_a_seed_a_folder_and_the_options_of_its_name(name):
    benchmark = find(name)
    parameters = inspect.signature(benchmark.module.load).parameters
    assert {"seed", "data_dir", *benchmark.options} <= set(parameters)
    for parameter in parameters.values():
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.default is not parameter.empty


@every_benchmark
def test_what_it_says_of_the_paper_is_about_its_own_benchmarks(name):
    module = find(name).module
    assert set(getattr(module, "PAPER", {})) <= set(benchmark_names())
    assert all(len(row) == 4 for row in getattr(module, "PAPER", {}).values())
    assert isinstance(getattr(module, "NOTE", ""), str)
