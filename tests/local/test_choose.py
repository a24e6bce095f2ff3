import pytest
from torch import nn

from fedcore.errors import BadOption
from fedcore.local.choose import choose_executor
from fedcore.local.linear import LinearExecutor
from fedcore.local.sequential import SequentialExecutor
from fedcore.task import Task
from fedcore.types import TrainingSettings


def choose(name, model, client):
    settings = TrainingSettings(0.1, 8)
    return choose_executor(name, Task(model), {0: client}, settings, threads=1)


def network():
    return nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2))


def test_auto_takes_the_fastest_that_fits(build_client):
    assert isinstance(choose("auto", nn.Linear(3, 2), build_client()), LinearExecutor)
    assert isinstance(choose("auto", network(), build_client()), SequentialExecutor)


def test_the_plain_loop_can_be_asked_for(build_client):
    assert isinstance(choose("sequential", nn.Linear(3, 2), build_client()), SequentialExecutor)


def test_the_compiled_loop_is_refused_for_a_network(build_client):
    with pytest.raises(BadOption, match="use 'auto'"):
        choose("compiled", network(), build_client())
