import numpy as np
import pytest
import torch

from fedcore.coreset.medoids.principal import LONG, turned
from fedcore.coreset.medoids.solve import solve

RNG = np.random.default_rng(0)


def distances(rows):
    wide = torch.from_numpy(rows[:60]).double()
    return torch.cdist(wide, wide)


@pytest.mark.parametrize("width", [50, 100, LONG + 10])
def test_distances_survive(width):
    rows = RNG.normal(size=(60, width)).astype(np.float32)
    assert torch.allclose(distances(turned(rows)), distances(rows), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [60, 300])
def test_a_small_layer_leaves_as_many_coordinates_as_it_has_outputs(width):
    small = RNG.normal(size=(60, 10)) * 10.0 ** RNG.uniform(-6, 0, size=(60, 1))
    rows = (small @ RNG.normal(size=(10, width))).astype(np.float32)
    short = turned(rows)
    assert short.shape[1] <= 12
    assert torch.allclose(distances(short), distances(rows), rtol=1e-3, atol=1e-5)


def test_one_point_outside_the_small_space_keeps_all_coordinates():
    """The sketch sees combinations of some rows; this row is not among them."""
    rows = RNG.normal(size=(3000, 10)) @ RNG.normal(size=(10, 300))
    rows[-1] = RNG.normal(size=300)
    rows = rows.astype(np.float32)
    assert turned(rows).shape[1] == 300
    assert turned(rows[:-1]).shape[1] <= 12


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_size_does_not_matter(scale):
    rows = RNG.normal(size=(200, 10)) @ RNG.normal(size=(10, 300)) * scale
    assert turned(rows.astype(np.float32)).shape[1] <= 12


@pytest.mark.parametrize("path", ["exact", "sparse"])
def test_long_gradients_are_solved_like_short_ones(path):
    small = RNG.normal(size=(1500, 8)).astype(np.float32)
    basis = np.linalg.qr(RNG.normal(size=(200, 8)))[0].T
    long = solve((small @ basis).astype(np.float32), 300, path=path)
    assert long.objective == pytest.approx(solve(small, 300, path=path).objective, rel=5e-3)
