import logging

import pytest
import torch
from torch import nn

from fedcore.client.executors import by_name
from fedcore.client.executors.by_name import block_size, choose_device, choose_executor
from fedcore.client.executors.linear import LinearExecutor
from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.client.executors.vectorised import VectorisedExecutor
from fedcore.compiled import say_once
from fedcore.errors import BadOption
from fedcore.task import Task
from fedcore.types import TrainingSettings


def choose(name, model, client, **how):
    settings = TrainingSettings(0.1, 8, **how)
    return choose_executor(name, Task(model), {0: client}, settings, threads=1)


def network():
    return nn.Sequential(nn.Linear(3, 2), nn.Softplus(), nn.Linear(2, 2))


def test_auto_takes_the_fastest_that_fits(build_client):
    chain = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2))
    assert isinstance(choose("auto", nn.Linear(3, 2), build_client()), LinearExecutor)
    assert isinstance(choose("auto", chain, build_client()), LinearExecutor)
    assert isinstance(choose("auto", network(), build_client()), VectorisedExecutor)


def test_large_chains_go_to_libraries_unless_the_loop_is_asked_for(build_client, monkeypatch):
    chain = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))  # 26 parameters
    monkeypatch.setattr(by_name, "MOST_PRODUCTS", 8 * 26)  # of batches of 8
    assert isinstance(choose("auto", chain, build_client()), VectorisedExecutor)
    assert isinstance(choose("compiled", chain, build_client()), LinearExecutor)
    assert isinstance(choose("auto", nn.Linear(3, 26), build_client()), LinearExecutor)
    monkeypatch.setattr(by_name, "MOST_PRODUCTS", 8 * 26 + 1)
    assert isinstance(choose("auto", chain, build_client()), LinearExecutor)


def test_the_plain_loop_can_be_asked_for(build_client):
    assert isinstance(choose("sequential", nn.Linear(3, 2), build_client()), SequentialExecutor)


def test_the_compiled_loop_is_refused_for_what_is_no_chain(build_client):
    with pytest.raises(BadOption, match="use 'auto'"):
        choose("compiled", network(), build_client())


@pytest.mark.parametrize("how", [{"momentum": 0.9}, {"weight_decay": 0.1}, {"clip_norm": 1.0}])
def test_the_compiled_loop_knows_momentum_decay_and_clipping(build_client, how):
    for name in ("auto", "compiled"):
        assert isinstance(choose(name, nn.Linear(3, 2), build_client(), **how), LinearExecutor)


def test_what_the_compiled_loop_cannot_do_is_done_without_it_and_said_once(build_client, caplog):
    say_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        for name in ("auto", "compiled"):
            found = choose(name, nn.Linear(3, 2), build_client(), adam=True)
            assert isinstance(found, VectorisedExecutor)
    assert len(caplog.records) == 1


class Drawing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x + torch.rand_like(x))


def test_a_model_that_draws_random_numbers_goes_through_the_plain_loop(build_client, caplog):
    with caplog.at_level(logging.WARNING):
        assert isinstance(choose("auto", Drawing(), build_client()), SequentialExecutor)
    assert len(caplog.records) == 1


def test_small_models_go_side_by_side_and_large_ones_one_per_core(build_client):
    large = nn.Sequential(nn.Linear(3, 300), nn.ReLU(), nn.Linear(300, 300), nn.Linear(300, 2))
    cpu = torch.device("cpu")
    assert block_size(Task(network()), build_client(), 8, cpu) > 100
    assert block_size(Task(large), build_client(), 8, cpu) == 1


@pytest.mark.parametrize(("room", "plain", "adam"), [(7, 7, 4), (1, 1, 1)])
def test_an_optimiser_takes_memory_so_blocks_are_smaller(
    build_client, monkeypatch, room, plain, adam
):
    monkeypatch.setattr(by_name, "block_size", lambda *_: room)
    assert choose("vectorised", network(), build_client())._block == plain
    assert choose("vectorised", network(), build_client(), adam=True)._block == adam


def test_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto", "auto").type == "cpu"
    with pytest.raises(BadOption, match="finds none"):
        choose_device("cuda", "auto")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto", "auto").type == "cuda"
    assert choose_device("auto", "compiled").type == "cpu"
    with pytest.raises(BadOption, match="runs on the CPU"):
        choose_device("cuda", "compiled")


@pytest.mark.parametrize(("width", "asked"), [(300, 1), (2, 0)])
def test_memory_is_kept_where_large_networks_are_trained(build_client, monkeypatch, width, asked):
    by_name._keep_freed_memory()  # runs everywhere, also where it can do nothing
    calls = []
    monkeypatch.setattr(by_name, "_keep_freed_memory", lambda: calls.append(1))
    layers = nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width), nn.Linear(width, 2)
    choose("vectorised", nn.Sequential(*layers), build_client())
    assert len(calls) == asked
