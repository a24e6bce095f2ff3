"""An answer for next to no time."""

import numpy as np
import pytest
import torch

from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.glimpse import glimpse
from fedcore.coreset.medoids.solve import solve
from fedcore.coreset.medoids.tensor import points_of


def test_with_time_everybody_has_the_nearest_medoid(family):
    metric = family(700)
    points = points_of(metric, torch.ones(len(metric)), None)
    answer = glimpse(points, np.arange(50)[::-1].copy(), "sparse", Deadline.after(60.0))
    everyone, medoids = torch.arange(len(metric)), torch.arange(50)
    distances = points.between(everyone, medoids)
    mine = distances[everyone, torch.from_numpy(answer.nearest)]
    assert answer.medoids.tolist() == list(range(50))
    assert not answer.finished
    slack = 1e-5 * float(distances.max())
    assert torch.allclose(mine, distances.min(dim=1).values, rtol=1e-4, atol=slack)


def test_without_time_everybody_has_some_medoid_and_medoids_have_themselves(late):
    points = points_of(late(2000), torch.ones(2000), None)
    answer = glimpse(points, np.arange(300), "sparse", Deadline.after(0.0))
    assert answer.nearest[:300].tolist() == list(range(300))
    assert set(answer.nearest) <= set(range(300))


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_labels_are_kept_apart(late, seconds):
    labels = torch.arange(900) % 4
    points = points_of(late(900), torch.ones(900), labels)
    answer = glimpse(points, np.arange(40), "sparse", Deadline.after(seconds))
    assert torch.equal(labels[answer.medoids][answer.nearest], labels)


@pytest.mark.parametrize("path", ["auto", "exact", "sparse", "torch"])
def test_hardly_any_time_ends_here(late, path):
    metric = late(3000)
    answer = solve(metric, 600, seconds=1e-4, path=path)
    assert len(answer.indices) == 600
    assert answer.weights.sum() == 3000
    assert not answer.finished
    assert answer.path == ("sparse" if path == "auto" else path)


def test_more_time_is_better(late):
    points = points_of(late(20_000), torch.ones(20_000), None)

    def cost(seconds):
        answer = glimpse(points, np.arange(4000), "sparse", Deadline.after(seconds))
        medoids = torch.from_numpy(answer.medoids[answer.nearest])
        return float(points.metric.between(torch.arange(20_000), medoids).sum())

    assert cost(0.5) < cost(0.0)
