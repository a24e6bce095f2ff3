"""The torch path with few medoids, against the exact one."""

import numpy as np
import pytest
import torch

from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.drawn import swap_drawn
from fedcore.coreset.medoids.solve import solve
from fedcore.coreset.medoids.tensor import points_of


def objective(points, medoids):
    everyone = torch.arange(len(points))
    nearest = points.between(everyone, medoids).min(dim=1).values.double()
    return float((nearest * points.weights.double()).sum())


@pytest.mark.parametrize("k", [8, 30])
def test_never_one_percent_above_the_exact_path_on_any_family(family, k):
    metric = family(1500)
    points = points_of(metric, torch.ones(len(metric)), None)
    medoids, _, finished = swap_drawn(points, torch.arange(k), Deadline())
    assert finished
    assert len(set(medoids.tolist())) == k
    assert objective(points, medoids) <= 1.01 * solve(metric, k, path="exact").objective + 1e-9


def test_large_problems_with_few_medoids_come_here(late):
    metric = late(4200)
    answer = solve(metric, 40, path="torch")
    assert (answer.path, answer.certified, answer.finished) == ("torch", 0.0, True)
    assert answer.objective <= 1.01 * solve(metric, 40, path="exact").objective


def test_no_time_leaves_the_start(late):
    points = points_of(late(1500), torch.ones(1500), None)
    medoids, swaps, finished = swap_drawn(points, torch.arange(20), Deadline.after(0.0))
    assert (medoids.tolist(), swaps, finished) == (list(range(20)), 0, False)


def test_labels_are_kept_apart(late):
    labels = np.arange(4200) % 3
    answer = solve(late(4200), 12, labels=labels, path="torch")
    assert np.array_equal(labels[answer.indices][answer.assignment], labels)
