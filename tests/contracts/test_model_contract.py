"""What every model must do, whatever its name."""

from pathlib import Path

import pytest
import torch

import fedcore.client
from fedcore import plugins
from fedcore.task import Task

EXAMPLES = {
    "logistic": torch.zeros(5),
    "logistic-sigmoid": torch.zeros(5),
    "cnn": torch.zeros(1, 8, 8),
    "char-lstm": torch.zeros(6, dtype=torch.uint8),
}

every_model = pytest.mark.parametrize("name", plugins.names("model"))


def build(name, classes=4):
    return plugins.load("model", name).build(EXAMPLES[name], classes)


@every_model
def test_scores_for_every_class(name):
    batch = EXAMPLES[name].expand(3, *EXAMPLES[name].shape)
    assert build(name)(batch).shape == (3, 4)


@every_model
def test_it_can_be_averaged_and_has_a_last_linear_layer(name):
    task = Task(build(name))
    params = task.initial_params()
    batch = EXAMPLES[name].expand(3, *EXAMPLES[name].shape)
    assert task.head_width == 4
    logits, entered = task.forward(params, batch, torch.zeros(3, 4))
    assert task.head_weight(params).shape == (4, entered.shape[1])
    assert torch.isfinite(logits).all()


@every_model
def test_initialisation_follows_the_seed(name):
    torch.manual_seed(5)
    first = Task(build(name)).initial_params()
    torch.manual_seed(5)
    second = Task(build(name)).initial_params()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_nobody_who_trains_a_model_knows_it_by_name():
    """A model brings its fast forms (fedcore/stacked.py)."""
    for path in Path(fedcore.client.__file__).parent.rglob("*.py"):
        assert "fedcore.models" not in path.read_text(), path
