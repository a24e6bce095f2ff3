import torch

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean


def test_taking_some_keeps_what_is_known_of_them():
    points = torch.arange(8.0).reshape(4, 2)
    candidates = Candidates(
        Euclidean(points), torch.tensor([0, 1, 0, 1]), torch.arange(4.0), torch.tensor([3])
    )
    some = candidates.take(torch.tensor([3, 1]))
    assert len(some) == 2
    assert some.labels.tolist() == [1, 1]
    assert some.losses.tolist() == [3, 1]
    assert torch.equal(some.space.factors[0], points[[3, 1]])
    assert some.start is None


def test_without_labels_all_are_of_one_class():
    assert Candidates(Euclidean(torch.zeros(3, 1))).classes().tolist() == [0, 0, 0]
