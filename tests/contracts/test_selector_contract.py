"""What every coreset method must do, whatever its name."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore import plugins

pytestmark = pytest.mark.parametrize("name", plugins.names("selector"))


def select(name, points, budget, labels=None, seed=0):
    if labels is None:
        labels = torch.arange(len(points)) % 3
    chosen = plugins.load("selector", name).select
    return chosen(points, budget, labels=labels, generator=np.random.default_rng(seed))


def check(found, size, budget):
    indices, weights = found.indices.tolist(), found.weights
    assert 1 <= len(indices) <= budget
    assert indices == sorted(set(indices))
    assert indices[0] >= 0
    assert indices[-1] < size
    assert (weights >= 1).all()
    assert weights.sum().item() == size


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_weighted_subset_within_the_budget(name, data):
    size = data.draw(st.integers(2, 60))
    budget = data.draw(st.integers(1, size - 1))
    seed = data.draw(st.integers(0, 1000))
    draw = np.random.default_rng(seed)
    points = torch.from_numpy(draw.normal(size=(size, 4)) * 10.0 ** draw.integers(-4, 4)).float()
    labels = torch.from_numpy(draw.integers(0, data.draw(st.integers(1, 5)), size))
    check(select(name, points, budget, labels, seed), size, budget)


@pytest.mark.parametrize("budget", [1, 2, 5, 9])
def test_equal_points(name, budget):
    check(select(name, torch.ones(10, 3), budget), 10, budget)


@pytest.mark.parametrize("budget", [1, 3, 6])
def test_points_in_equal_pairs(name, budget):
    points = torch.arange(5.0).repeat_interleave(2).reshape(10, 1)
    check(select(name, points, budget), 10, budget)


def test_the_same_seed_gives_the_same_subset(name):
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    first, second = (select(name, points, 7, seed=5) for _ in range(2))
    assert torch.equal(first.indices, second.indices)
    assert torch.equal(first.weights, second.weights)


def test_one_class_only(name):
    points = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    check(select(name, points, 6, torch.zeros(20, dtype=torch.long)), 20, 6)
