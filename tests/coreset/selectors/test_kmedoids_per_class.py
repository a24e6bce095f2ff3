import numpy as np
import torch

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.selectors.kmedoids_per_class import select


def test_every_class_has_its_own_medoids():
    """Two classes that overlap completely: a global medoid would serve both."""
    points = torch.tensor([[0.0], [1], [2], [0], [1], [2]])
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    found = select(Candidates(Euclidean(points), labels), 2, np.random.default_rng(0))
    assert found.indices.tolist() == [1, 4]
    assert found.weights.tolist() == [3, 3]
    assert found.objective == 4


def test_the_budget_holds_where_rounding_up_per_class_would_break_it():
    """Ten classes of 11 samples and a budget of 25: ceil(2.5) = 3 each would take 30."""
    draw = np.random.default_rng(0)
    points = torch.from_numpy(draw.normal(size=(110, 3))).float()
    labels = torch.arange(10).repeat(11)
    found = select(Candidates(Euclidean(points), labels), 25, draw)
    assert len(found.indices) == 25
    assert found.weights.sum() == 110
