"""Small examples, worked out by hand, of the methods the paper's related work names."""

import numpy as np
import pytest
import torch

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.medoids.metric import Euclidean
from fedcore.coreset.selectors import (
    craig,
    el2n,
    gradmatch,
    kcenter,
    kmedoids,
    kmedoids_same_label,
    loss_topk,
    uniform_plain,
)
from fedcore.errors import BadOption

LINE = torch.tensor([[0.0], [1], [2], [10], [11]])


def run(module, points, budget, **known):
    return module.select(Candidates(Euclidean(points), **known), budget, np.random.default_rng(0))


def test_uniform_plain_weighs_n_over_b():
    assert run(uniform_plain, LINE, 2).weights.tolist() == [2.5, 2.5]


def test_uniform_plain_is_unbiased_over_draws():
    candidates = Candidates(Euclidean(LINE))
    totals = []
    for seed in range(3000):
        found = uniform_plain.select(candidates, 2, np.random.default_rng(seed))
        totals.append(float((found.weights[:, None] * LINE[found.indices].double()).sum()))
    assert np.mean(totals) == pytest.approx(24, abs=0.6)


def test_kcenter_goes_to_the_far_ends():
    """From any start the second is an end, so three centres leave nobody farther than 2."""
    found = run(kcenter, LINE, 3)
    reach = torch.cdist(LINE, LINE[found.indices]).min(dim=1).values
    assert reach.max() <= 2


def test_craig_takes_the_median_first_and_then_the_other_group():
    """One element: 2 has the least sum of distances (2 + 1 + 0 + 8 + 9 = 20). Then 10."""
    assert run(craig, LINE, 1).indices.tolist() == [2]
    assert run(craig, LINE, 2).indices.tolist() == [2, 3]


def test_lazy_greedy_is_greedy():
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
    distance = torch.cdist(points.double(), points.double())
    chosen, gap = [], torch.full((40,), float(2 * distance[:, 0].max()), dtype=torch.float64)
    for _ in range(9):
        gains = (gap[None, :] - distance).clamp(min=0).sum(dim=1)
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
        gap = torch.minimum(gap, distance[chosen[-1]])
    assert run(craig, points, 9).indices.tolist() == sorted(chosen)


def test_greedy_is_close_to_kmedoids():
    points = torch.randn(200, 5, generator=torch.Generator().manual_seed(2))
    best = run(kmedoids, points, 40).objective
    assert best <= run(craig, points, 40).objective <= 1.15 * best


def test_gradmatch_finds_an_exact_match():
    """The sum (4, 4) of 4 samples is 4 times the first: one element is enough."""
    points = torch.tensor([[1.0, 1.0], [3.0, 0.0], [0.0, 3.0], [0.0, 0.0]])
    found = run(gradmatch, points, 3)
    assert found.indices.tolist() == [0]
    assert found.weights.tolist() == [4]
    assert found.gradient_error == pytest.approx(0, abs=1e-6)


def test_gradmatch_lowers_the_gradient_error_below_that_of_random():
    points = torch.randn(100, 8, generator=torch.Generator().manual_seed(3)) + 0.3
    assert (
        run(gradmatch, points, 20).gradient_error
        < 0.6 * run(uniform_plain, points, 20).gradient_error
    )


def test_el2n_takes_the_longest():
    points = torch.tensor([[3.0, 4.0], [0.0, 1.0], [6.0, 0.0], [0.0, -2.0]])
    assert run(el2n, points, 2).indices.tolist() == [0, 2]


def test_loss_topk_takes_the_worst_and_needs_losses():
    found = run(loss_topk, LINE, 2, losses=torch.tensor([0.1, 5.0, 0.2, 4.0, 0.3]))
    assert found.indices.tolist() == [1, 3]
    with pytest.raises(BadOption, match="needs losses"):
        run(loss_topk, LINE, 2)


def test_same_label_serves_every_class_and_gives_more_where_more_is_needed():
    """Class 0 is one spot, class 1 is spread out: two of three medoids go to class 1."""
    points = torch.tensor([[0.0], [0.1], [0.2], [0.0], [50.0], [90.0]])
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    found = run(kmedoids_same_label, points, 3, labels=labels)
    chosen = labels[found.indices].tolist()
    assert sorted(chosen) == [0, 1, 1]
    own = labels[found.indices[found.assignment]]
    assert torch.equal(own, labels)


def test_same_label_with_too_few_places_forgets_the_labels():
    found = run(kmedoids_same_label, LINE, 2, labels=torch.arange(5))
    assert found.indices.tolist() == run(kmedoids, LINE, 2).indices.tolist()
