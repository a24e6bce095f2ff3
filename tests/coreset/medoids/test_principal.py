import numpy as np
import pytest
import torch

from fedcore.coreset.medoids.rotation import LEADING, SHORT, leading, turned
from fedcore.coreset.medoids.solve import solve
from fedcore.coreset.metric import Euclidean, OuterProduct

RNG = np.random.default_rng(0)


def distances(metric):
    first, second = torch.cartesian_prod(torch.arange(60), torch.arange(60)).T
    return metric.between(first, second)


def test_distances_survive():
    metric = Euclidean(RNG.normal(size=(60, 100)))
    assert torch.allclose(distances(turned(metric)), distances(metric), rtol=1e-4, atol=1e-4)


def test_a_small_layer_leaves_as_many_coordinates_as_it_has_outputs():
    small = RNG.normal(size=(60, 10)) * 10.0 ** RNG.uniform(-6, 0, size=(60, 1))
    metric = Euclidean(small @ RNG.normal(size=(10, 300)))
    short = turned(metric)
    assert short.points.shape[1] <= 12
    assert torch.allclose(distances(short), distances(metric), rtol=1e-3, atol=1e-5)


def test_short_vectors_and_outer_products_are_left_alone():
    short = Euclidean(RNG.normal(size=(20, SHORT)))
    outer = OuterProduct(RNG.normal(size=(20, 3)), RNG.normal(size=(20, 90)))
    assert turned(short) is short
    assert turned(outer) is outer


@pytest.mark.parametrize("path", ["exact", "sparse"])
def test_long_gradients_are_solved_like_short_ones(path):
    small = RNG.normal(size=(1500, 8)).astype(np.float32)
    basis = np.linalg.qr(RNG.normal(size=(200, 8)))[0].T
    long = solve((small @ basis).astype(np.float32), 300, path=path)
    assert long.objective == pytest.approx(solve(small, 300, path=path).objective, rel=5e-3)


@pytest.mark.parametrize("width", [3, LEADING, 200])
def test_a_few_directions_bound_distances_from_both_sides(width):
    scales = 10.0 ** -np.linspace(0, 3, width)
    rows = (RNG.normal(size=(60, width)) * scales + 1).astype(np.float32)
    head, tail = leading(rows)
    assert head.shape == (60, min(width, LEADING))
    exact = torch.cdist(torch.from_numpy(rows).double(), torch.from_numpy(rows).double()).numpy()
    short = torch.cdist(torch.from_numpy(head).double(), torch.from_numpy(head).double()).numpy()
    assert (short <= exact * (1 + 1e-5) + 1e-5).all()
    assert (np.sqrt(short**2 + (tail[:, None] + tail) ** 2) >= exact * (1 - 1e-5)).all()
