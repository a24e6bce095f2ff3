import sys

import pytest
import torch

from fedcore.client.executors import by_name, memory
from fedcore.models.char_lstm import CharacterLstm
from fedcore.task import Task
from fedcore.types import ClientData, TrainingSettings


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a matter of the GNU C library")
def test_the_c_library_agrees_and_may_be_asked_again():
    assert memory.keep_freed_memory() == memory.keep_freed_memory()


def test_elsewhere_nothing_happens(monkeypatch):
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    assert memory.keep_freed_memory() is False


@pytest.mark.parametrize(("model", "asked"), [("lstm", 1), ("small", 0)])
def test_it_is_asked_where_large_networks_are_trained_one_by_one(monkeypatch, model, asked):
    calls = []
    monkeypatch.setattr(by_name, "keep_freed_memory", lambda: calls.append(1))
    if model == "lstm":
        task, x = Task(CharacterLstm(5)), torch.randint(5, (6, 4))
    else:
        task, x = (
            Task(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())),
            torch.randn(6, 3),
        )
    clients = {0: ClientData(x, torch.zeros(6, dtype=torch.int64))}
    by_name.choose_executor("vectorised", task, clients, TrainingSettings(0.1, 4), threads=1)
    assert len(calls) == asked
