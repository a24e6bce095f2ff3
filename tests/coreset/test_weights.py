import pytest
import torch

from fedcore.coreset import metric as distances
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.weights import equal_weights, nearest_counts


def test_by_hand():
    # On a line: 0 1 2 | 10 11, chosen 1 and 10. Distances 1 0 1 0 1, clusters of 3 and 2.
    space = Euclidean(torch.tensor([[0.0], [1], [2], [10], [11]]))
    found = nearest_counts(space, torch.tensor([1, 3]))
    assert found.weights.tolist() == [3, 2]
    assert found.objective == 3
    assert found.assignment.tolist() == [0, 0, 0, 1, 1]
    # Sum 24; weighted 3 * 1 + 2 * 10 = 23.
    assert found.gradient_error == pytest.approx(1 / 24)


def test_a_tie_goes_to_the_lower_index():
    space = Euclidean(torch.tensor([[0.0], [1], [2]]))
    assert nearest_counts(space, torch.tensor([0, 2])).weights.tolist() == [2, 1]


def test_a_chosen_point_counts_for_itself_even_if_another_chosen_one_is_equal():
    found = nearest_counts(Euclidean(torch.zeros(4, 2)), torch.tensor([0, 3]))
    assert found.weights.tolist() == [3, 1]


def test_distances_far_below_the_norms_are_not_lost():
    space = Euclidean(torch.tensor([[1000.0], [1000.001], [2000]]))
    assert nearest_counts(space, torch.tensor([0, 2])).objective == pytest.approx(0.001, abs=5e-5)


def test_blocks_change_nothing(monkeypatch):
    space = Euclidean(torch.randn(50, 3, generator=torch.Generator().manual_seed(0)))
    whole = nearest_counts(space, torch.arange(0, 50, 7))
    monkeypatch.setattr(distances, "BLOCK", 16)
    parts = nearest_counts(space, torch.arange(0, 50, 7))
    assert torch.equal(whole.weights, parts.weights)
    assert parts.objective == pytest.approx(whole.objective)


def test_equal_weights_share_the_samples_out():
    found = equal_weights(Euclidean(torch.randn(10, 2)), torch.tensor([1, 4, 5, 8]))
    assert found.weights.tolist() == [2.5] * 4
    assert found.objective is None
