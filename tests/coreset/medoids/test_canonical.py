import numpy as np
import torch

from fedcore.coreset.medoids.canonical import distinct
from fedcore.coreset.metric import Euclidean

POINTS = np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0], [3.0, 1.0], [-0.0, 0.0], [1.0, 2.0]])


def test_equal_points_become_one_with_a_count():
    points = distinct(Euclidean(POINTS), seed=0)
    assert sorted(points.counts.tolist()) == [1, 2, 3]
    assert sorted(points.first.tolist()) == [0, 1, 3]
    rebuilt = POINTS[points.first.numpy()][points.group.numpy()]
    np.testing.assert_array_equal(rebuilt, POINTS)


def test_the_order_of_points_does_not_depend_on_the_order_of_the_input():
    values = np.random.default_rng(0).normal(size=(100, 3))
    shuffled = np.random.default_rng(1).permutation(values)
    one, other = distinct(Euclidean(values), seed=4), distinct(Euclidean(shuffled), seed=4)
    np.testing.assert_array_equal(values[one.first.numpy()], shuffled[other.first.numpy()])


def test_another_seed_gives_another_order():
    metric = Euclidean(np.random.default_rng(0).normal(size=(100, 3)))
    assert distinct(metric, 0).first.tolist() != distinct(metric, 1).first.tolist()


def test_equal_points_with_different_labels_stay_apart():
    points = distinct(Euclidean(POINTS), seed=0, labels=torch.tensor([0, 0, 1, 0, 0, 1]))
    assert sorted(points.counts.tolist()) == [1, 1, 2, 2]


def test_round_numbers_do_not_collide():
    grid = np.stack(np.meshgrid(np.arange(64), np.arange(64)), axis=-1).reshape(-1, 2)
    points = distinct(Euclidean(grid), seed=0)
    assert len(points.first) == 64 * 64
