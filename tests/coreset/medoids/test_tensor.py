"""The torch path against the exact one; it must not need numba."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.solve import solve
from fedcore.coreset.medoids.tensor import MANY, OutOfTime, nearest_of, points_of
from fedcore.coreset.metric import Euclidean

WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
import fedcore.compiled
fedcore.compiled.have_numba = lambda: False
import fedcore.coreset.medoids.solve as s
s.have_numba = lambda: False
import torch
points = torch.randn(1100, 4)
assert s.solve(points, 90).path == "torch"
"""


def test_the_torch_path_needs_no_numba():
    subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], check=True)


@pytest.mark.parametrize(("count", "share"), [(400, 0.02), (400, 0.3), (1200, 0.05), (1200, 0.4)])
def test_never_one_percent_above_the_exact_path_on_any_family(family, count, share):
    metric = family(count)
    k = max(1, int(share * len(metric)))
    exact = solve(metric, k, path="exact").objective
    assert solve(metric, k, path="torch").objective <= 1.01 * exact + 1e-12


@pytest.mark.parametrize("k", [1, 8, 150])
@pytest.mark.parametrize("seconds", [0.0, 30.0])
def test_any_budget_gives_a_complete_answer(late, k, seconds):
    answer = solve(late(1100), k, path="torch", seconds=seconds)
    assert len(answer.indices) == k
    assert answer.weights.sum() == 1100
    assert answer.finished == (seconds == 30.0)


def test_distances_agree_with_the_metric(family):
    metric = family(40)
    points = points_of(metric, torch.ones(len(metric)), None)
    everyone = torch.arange(len(metric))
    got = points.between(everyone, everyone).double()
    first, second = (
        index.reshape(-1) for index in torch.meshgrid(everyone, everyone, indexing="ij")
    )
    want = metric.between(first, second).reshape(got.shape)
    assert torch.allclose(got, want, rtol=1e-4, atol=1e-4 * float(want.max()))
    assert float(want.max()) <= points.far


def test_equal_distances_go_to_the_lower_number():
    points = points_of(Euclidean(np.array([[0.0], [1.0], [-1.0], [1.0]])), torch.ones(4), None)
    numbers, _ = nearest_of(points, torch.tensor([0]), torch.tensor([3, 1, 2]), 3)
    assert numbers.tolist() == [[1, 2, 3]]


def test_no_time_is_said_by_an_exception(late):
    points = points_of(late(50), torch.ones(50), None)
    everyone = torch.arange(50)
    with pytest.raises(OutOfTime):
        nearest_of(points, everyone, everyone, 2, Deadline.after(0.0))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("count", "k"), [(2000, 400), (MANY + 1, 40)])  # many medoids, and few
def test_a_gpu_gives_a_repeatable_answer_like_that_of_the_cpu(late, count, k):
    metric = late(count)
    there = Euclidean(metric.points.cuda())
    one, two = (solve(there, k) for _ in range(2))
    assert one.path == "torch"
    assert one.indices.tolist() == two.indices.tolist()
    assert one.objective <= 1.01 * solve(metric, k, path="exact").objective
