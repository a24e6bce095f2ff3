import pytest
import torch

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
