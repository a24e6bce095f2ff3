import numpy as np
import pytest

from fedcore.coreset.medoids.kernels import spatial_order


@pytest.mark.parametrize("count", [1, 2, 64, 65, 129, 1000])
def test_every_point_appears_once(count):
    points = np.random.default_rng(0).normal(size=(count, 3)).astype(np.float32)
    assert np.sort(spatial_order(points)).tolist() == list(range(count))


def test_runs_are_much_smaller_than_the_whole():
    points = np.random.default_rng(0).uniform(size=(4096, 2)).astype(np.float32)
    runs = points[spatial_order(points)].reshape(64, 64, 2)
    assert np.ptp(runs, axis=1).mean() < 0.2


def test_equal_points_are_no_obstacle():
    assert np.sort(spatial_order(np.ones((500, 2), np.float32))).tolist() == list(range(500))
