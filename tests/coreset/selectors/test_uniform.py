import numpy as np
import torch

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.selectors.uniform import draw, select


def test_five_points_by_hand():
    """Whatever two of 0 1 2 10 11 are drawn, the rest count for the nearer one."""
    points = torch.tensor([[0.0], [1], [2], [10], [11]])
    found = select(Candidates(Euclidean(points)), 2, np.random.default_rng(3))
    first, second = (points[i].item() for i in found.indices)
    nearer_first = sum(abs(p - first) <= abs(p - second) for p in (0, 1, 2, 10, 11))
    assert found.weights.tolist() == [nearer_first, 5 - nearer_first]


def test_every_point_is_drawn_equally_often():
    points = torch.arange(10.0).reshape(10, 1)
    counts = np.zeros(10)
    for seed in range(2000):
        generator = np.random.default_rng(seed)
        counts[draw(Candidates(Euclidean(points)), 3, generator)] += 1
    assert np.abs(counts / 2000 - 0.3).max() < 0.05
