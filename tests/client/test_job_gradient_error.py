import numpy as np
import pytest
import torch
from torch import nn

from fedcore.client import job as module
from fedcore.client.job import full_gradient_error
from fedcore.client.schedule import Samples
from fedcore.task import Task


def test_by_autograd_of_the_two_sums(build_client, monkeypatch):
    monkeypatch.setattr(module, "MEASURE_CHUNK", 5)
    client = build_client(13)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    task = Task(model)
    samples = Samples(np.array([1, 6, 9]), np.array([4.0, 6.0, 3.0]))

    def gradient(indices, weights):
        model.zero_grad()
        losses = nn.functional.cross_entropy(
            model(client.x[indices]), client.y[indices], reduction="none"
        )
        (weights * losses).sum().backward()
        return torch.cat([p.grad.flatten() for p in model.parameters()]).clone()

    whole = gradient(torch.arange(13), torch.ones(13))
    part = gradient(torch.tensor([1, 6, 9]), torch.tensor([4.0, 6.0, 3.0]))
    expected = float((whole - part).norm() / whole.norm())
    found = full_gradient_error(task, task.initial_params(), client, samples)
    assert found == pytest.approx(expected, rel=1e-4)


def test_everything_has_no_error(build_client):
    task = Task(nn.Linear(3, 2))
    client = build_client(8)
    everything = Samples.everything(8)
    assert full_gradient_error(task, task.initial_params(), client, everything) == 0
