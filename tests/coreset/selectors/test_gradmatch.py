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


@pytest.fixture
def crowded():
    """1,500 gradients near 20 of 200 directions, so that many are alike."""
    draws = torch.Generator().manual_seed(0)
    near = torch.randn(1500, 20, generator=draws) @ torch.randn(20, 200, generator=draws)
    return near + torch.randn(1500, 200, generator=draws) / 20


def test_weights_are_refitted_until_no_others_are_better(crowded):
    """Gδ >= t, and Gδ = t where δ > 0."""
    some, total = crowded[:60].double(), crowded.double().sum(0)
    gram, target = some @ some.T, some @ total
    for start in (torch.zeros(60), torch.ones(60), torch.arange(60) % 2):
        weights = gradmatch._nonnegative_fit(gram, target, start.double())
        slope = (gram @ weights - target) / target.max()
        assert weights.min() >= 0
        assert slope.min() > -1e-9
        assert slope[weights > 0].abs().max() < 1e-9


def test_gradmatch_matches_what_can_be_matched(run, crowded):
    """With refits that stopped half-way the error was 0.13."""
    assert run(gradmatch, crowded, 120).gradient_error < 0.08
