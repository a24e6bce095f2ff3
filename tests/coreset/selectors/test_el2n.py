import torch

from fedcore.coreset.selectors import el2n


def test_el2n_takes_the_longest(run):
    points = torch.tensor([[3.0, 4.0], [0.0, 1.0], [6.0, 0.0], [0.0, -2.0]])
    assert run(el2n, points, 2).indices.tolist() == [0, 2]
