"""What every coreset method must do, whatever its name."""

import pytest

pytest.importorskip("hypothesis")


import inspect
import pathlib

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore import plugins
from fedcore.coreset.build import build_coreset
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean, OuterProduct

pytestmark = pytest.mark.parametrize("name", plugins.names("selector"))


def select(name, points, budget, labels=None, seed=0):
    space = points if isinstance(points, OuterProduct) else Euclidean(points)
    labels = torch.arange(len(space)) % 3 if labels is None else labels
    losses = space.factors[0].double().square().sum(dim=1)
    candidates = Candidates(space, labels, losses)
    return plugins.load("selector", name).select(candidates, budget, np.random.default_rng(seed))


def check(found, size, budget):
    indices = found.indices.tolist()
    assert 1 <= len(indices) <= budget
    assert indices == sorted(set(indices))
    assert indices[0] >= 0
    assert indices[-1] < size
    assert (found.weights > 0).all()
    assert found.sums_in_the_mean or found.weights.sum().item() == pytest.approx(size)
    assert found.gradient_error >= 0
    if found.assignment is not None:
        counts = torch.bincount(found.assignment, minlength=len(indices)).double()
        assert torch.equal(counts, found.weights)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_weighted_subset_within_the_budget(name, data):
    size = data.draw(st.integers(2, 60))
    budget = data.draw(st.integers(1, size - 1))
    seed = data.draw(st.integers(0, 1000))
    draw = np.random.default_rng(seed)
    points = torch.from_numpy(draw.normal(size=(size, 4)) * 10.0 ** draw.integers(-4, 4)).float()
    labels = torch.from_numpy(draw.integers(0, data.draw(st.integers(1, 5)), size))
    check(select(name, points, budget, labels, seed), size, budget)


def hard_sets(size, draw):
    """Points at the edges of what numbers can say; all that they ask is a coreset."""
    points = draw.normal(size=(size, 6))
    rounding = 1 + 1e-7 * draw.normal(size=(size, 6))
    return {
        "tiny": points * 10.0 ** draw.uniform(-30, 0, size=(size, 1)),
        "mixed": points * 10.0 ** draw.uniform(-38, 30, size=(size, 1)),
        "mixed in single precision": (
            points * 10.0 ** draw.uniform(-38, 30, size=(size, 1))
        ).astype(np.float32),
        "denormal": (points * 1e-43).astype(np.float32),
        "below single precision": points * 1e-60,
        "huge": points * 1e37,
        "equal up to rounding": points[draw.integers(4, size=size)] * rounding,
        "far from zero": points + 1e8,
        "zero columns": np.hstack((points, np.zeros((size, 2)))),
        "no columns": points[:, :0],
        "zero": points * 0,
    }


@pytest.mark.parametrize("kind", hard_sets(4, np.random.default_rng(0)))
def test_numbers_of_any_size_make_a_coreset(name, kind):
    draw = np.random.default_rng(len(kind))
    for _ in range(8):
        size = int(draw.integers(20, 90))
        budget = int(draw.integers(1, size))
        points = hard_sets(size, draw)[kind]
        found = select(name, points, budget)
        check(found, size, budget)
        assert np.isfinite(found.gradient_error)
        assert found.objective is None or np.isfinite(found.objective)
        if kind == "below single precision" and found.objective is not None:
            assert found.objective > 1e-63
        built = build_coreset(
            Candidates(Euclidean(points), torch.arange(size) % 3, torch.rand(size)),
            budget,
            name,
            np.random.default_rng(0),
        )
        assert not built.fell_back


@pytest.mark.parametrize("scale", [1e-37, 1e-20, 1e20, 1e37])
def test_tiny_and_huge_outer_products(name, scale):
    draw = np.random.default_rng(0)
    space = OuterProduct(draw.normal(size=(40, 3)) * scale, draw.normal(size=(40, 5)) / scale)
    check(select(name, space, 9), 40, 9)


def test_an_offset_that_single_precision_would_swallow_is_none(name):
    """Distances do not change with it, so neither does Σ_j min_k d_jk of what was chosen."""
    points = np.random.default_rng(4).normal(size=(60, 3))
    found = select(name, points + 1e8, 12)
    if found.objective is not None and found.assignment is not None:
        chosen = points[found.indices.numpy()][found.assignment.numpy()]
        expected = np.linalg.norm(points - chosen, axis=1).sum()
        assert found.objective == pytest.approx(expected, rel=1e-5)
        assert found.objective > 1


@pytest.mark.parametrize("budget", [1, 2, 5, 9])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_points(name, value, budget):
    check(select(name, torch.full((10, 3), value), budget), 10, budget)


@pytest.mark.parametrize("budget", [1, 3, 6])
def test_points_in_equal_pairs(name, budget):
    points = torch.arange(5.0).repeat_interleave(2).reshape(10, 1)
    check(select(name, points, budget), 10, budget)


@pytest.mark.parametrize("bias", [True, False])
def test_outer_products(name, bias):
    draw = torch.Generator().manual_seed(0)
    space = OuterProduct(
        torch.randn(30, 3, generator=draw), torch.randn(30, 5, generator=draw), bias
    )
    check(select(name, space, 8), 30, 8)


def test_the_same_seed_gives_the_same_subset(name):
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    first, second = (select(name, points, 7, seed=5) for _ in range(2))
    assert torch.equal(first.indices, second.indices)
    assert torch.equal(first.weights, second.weights)


def test_one_class_only(name):
    points = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    check(select(name, points, 6, torch.zeros(20, dtype=torch.long)), 20, 6)


def test_no_labels_at_all(name):
    space = Euclidean(torch.randn(20, 3, generator=torch.Generator().manual_seed(0)))
    candidates = Candidates(space, losses=torch.rand(20))
    found = plugins.load("selector", name).select(candidates, 6, np.random.default_rng(0))
    check(found, 20, 6)


def test_it_is_called_as_the_page_on_architecture_says(name):
    page = pathlib.Path(__file__).parents[2] / "docs" / "architecture.md"
    signature = inspect.signature(plugins.load("selector", name).select)
    parameters = signature.parameters.values()
    written = ", ".join(f"{one.name}: {one.annotation.__name__}" for one in parameters)
    assert all(one.default is one.empty for one in parameters)
    returned = signature.return_annotation.__name__
    assert f"`select({written}) -> {returned}`" in page.read_text()
