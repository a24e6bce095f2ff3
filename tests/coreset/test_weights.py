import pytest
import torch

from fedcore.coreset import weights
from fedcore.coreset.weights import nearest_chosen, nearest_counts


def test_by_hand():
    # On a line: 0 1 2 | 10 11, chosen 1 and 10. Distances 1 0 1 0 1, clusters of 3 and 2.
    points = torch.tensor([[0.0], [1], [2], [10], [11]])
    found = nearest_counts(points, torch.tensor([1, 3]))
    assert found.weights.tolist() == [3, 2]
    assert found.objective == 3


def test_a_tie_goes_to_the_lower_index():
    points = torch.tensor([[0.0], [1], [2]])
    assert nearest_counts(points, torch.tensor([0, 2])).weights.tolist() == [2, 1]


def test_a_chosen_point_counts_for_itself_even_if_another_chosen_one_is_equal():
    points = torch.zeros(4, 2)
    assert nearest_counts(points, torch.tensor([0, 3])).weights.tolist() == [3, 1]


def test_distances_far_below_the_norms_are_not_lost():
    points = torch.tensor([[1000.0], [1000.001], [2000]])
    _, distance = nearest_chosen(points, points[[0, 2]])
    assert distance.tolist() == pytest.approx([0, 0.001, 0], abs=5e-5)


def test_chunks_change_nothing(monkeypatch):
    points = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    whole = nearest_counts(points, torch.arange(0, 50, 7))
    monkeypatch.setattr(weights, "CHUNK_ELEMENTS", 16)
    parts = nearest_counts(points, torch.arange(0, 50, 7))
    assert torch.equal(whole.weights, parts.weights)
    assert whole.objective == parts.objective
