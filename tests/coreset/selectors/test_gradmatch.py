import pytest
import torch

from fedcore import select_coreset
from fedcore.coreset.selectors import gradmatch, uniform_plain


def test_gradmatch_finds_an_exact_match(run):
    """The sum (4, 4) of 4 samples is 4 times the first: one element is enough."""
    points = torch.tensor([[1.0, 1.0], [3.0, 0.0], [0.0, 3.0], [0.0, 0.0]])
    found = run(gradmatch, points, 3)
    assert found.indices.tolist() == [0]
    assert found.weights.tolist() == [4]
    assert found.gradient_error == pytest.approx(0, abs=1e-6)


def test_gradmatch_lowers_the_gradient_error_below_that_of_random(run):
    points = torch.randn(100, 8, generator=torch.Generator().manual_seed(3)) + 0.3
    assert (
        run(gradmatch, points, 20).gradient_error
        < 0.6 * run(uniform_plain, points, 20).gradient_error
    )


def test_points_become_doubles_once_not_at_every_turn():
    points = torch.randn(400, 300, generator=torch.Generator().manual_seed(3))
    with torch.autograd.profiler.profile(profile_memory=True) as seen:
        found = select_coreset(points, 25, selector="gradmatch")
    assert len(found.indices) == 25
    copies = [one for one in seen.function_events if one.self_cpu_memory_usage >= 2 * points.nbytes]
    assert len(copies) <= 5
