import subprocess
import sys

import pytest
import torch

from fedcore.coreset.metric import (
    Euclidean,
    OuterProduct,
    blocks,
    distances,
    gradient_error,
    inner,
    squared_norms,
    weighted_sum,
)


def outer(bias, size=12):
    """A space of outer products, and its long vectors written out."""
    draw = torch.Generator().manual_seed(3)
    residuals = torch.randn(size, 4, generator=draw)
    inputs = torch.randn(size, 6, generator=draw)
    extended = torch.cat([inputs, torch.ones(size, 1)], dim=1) if bias else inputs
    vectors = (residuals[:, :, None] * extended[:, None, :]).flatten(1).double()
    return OuterProduct(residuals, inputs, bias), vectors


@pytest.mark.parametrize("bias", [True, False])
def test_the_gram_form_is_that_of_the_long_vectors(bias):
    space, vectors = outer(bias)
    rows, columns = torch.tensor([0, 3, 7]), slice(2, 9)
    assert torch.allclose(
        inner(space, rows, columns), vectors[rows] @ vectors[columns].T, atol=1e-5
    )
    assert torch.allclose(squared_norms(space), vectors.square().sum(1), rtol=1e-6)
    expected = torch.cdist(vectors[rows], vectors[columns]).float()
    assert torch.allclose(distances(space, rows, columns), expected, atol=1e-4)
    weights = torch.arange(12.0)
    assert torch.allclose(
        weighted_sum(space, slice(None), weights).norm(),
        (weights.double()[:, None] * vectors).sum(0).norm(),
    )


@pytest.mark.parametrize("bias", [True, False])
def test_the_gradient_error_is_that_of_the_long_vectors(bias):
    space, vectors = outer(bias)
    indices, weights = torch.tensor([1, 5, 8]), torch.tensor([3.0, 4.0, 5.0])
    whole = vectors.sum(0)
    part = (weights.double()[:, None] * vectors[indices]).sum(0)
    expected = float((whole - part).norm() / whole.norm())
    assert gradient_error(space, indices, weights) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("axis", [0, 1], ids=["a sum of all", "lengths of all"])
def test_no_copy_is_made_of_all_points(axis):
    """In doubles it would be twice as large as they are."""
    points = torch.randn(3000, 700)
    space = Euclidean(points)
    with torch.autograd.profiler.profile(profile_memory=True) as seen:
        total = squared_norms(space) if axis else weighted_sum(space, slice(None))
    numbers = points.double().square() if axis else points.double()
    assert torch.allclose(total, numbers.sum(axis), rtol=1e-12, atol=1e-9)
    assert max(event.self_cpu_memory_usage for event in seen.function_events) < points.nbytes


PROGRAM = """
import resource
import torch
from fedcore.coreset.metric import Euclidean, gradient_error

some = torch.arange(9), torch.ones(9)
gradient_error(Euclidean(torch.randn(999, 512)), *some)
points = torch.randn(30_000, 512)
space = Euclidean(points)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
gradient_error(space, *some)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_no_memory_is_left_in_pieces_behind_either():
    """Small results between the copies would keep each copy's memory from the next one."""
    command = [sys.executable, "-c", PROGRAM]
    found = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert int(found.stdout) < 30  # megabytes; points are 61, their doubles 123


def test_everything_has_no_error():
    space = Euclidean(torch.randn(9, 3))
    assert gradient_error(space, torch.arange(9), torch.ones(9)) == 0


def test_gradients_that_cancel_are_measured_by_their_length():
    space = Euclidean(torch.tensor([[1.0], [-1.0]]))
    assert gradient_error(space, torch.tensor([0]), torch.tensor([2.0])) == pytest.approx(2.0)


def test_zero_gradients_have_no_error():
    assert gradient_error(Euclidean(torch.zeros(3, 2)), torch.tensor([0]), torch.tensor([3.0])) == 0


def test_blocks_cover_everything_once():
    covered = [i for part in blocks(1000, 1 << 20) for i in range(part.start, part.stop)]
    assert covered == list(range(1000))
