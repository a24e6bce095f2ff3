import torch

from fedcore.models.logistic import build
from fedcore.models.logistic_sigmoid import build as build_sigmoid


def test_scores_are_linear():
    model = build(torch.zeros(2, 3), 4)
    x = torch.randn(5, 2, 3)
    expected = x.flatten(1) @ model.linear.weight.T + model.linear.bias
    assert torch.allclose(model(x), expected)


def test_the_authors_model_squashes_its_scores():
    model = build_sigmoid(torch.zeros(6), 4)
    scores = model(100 * torch.randn(5, 6))
    assert scores.min() >= 0
    assert scores.max() <= 1
