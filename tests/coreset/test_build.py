import numpy as np
import pytest
import torch

from fedcore.coreset.build import build_coreset
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.errors import UnknownPlugin


def build(points, budget, selector="kmedoids"):
    candidates = Candidates(Euclidean(points))
    return build_coreset(candidates, budget, selector, np.random.default_rng(0))


@pytest.mark.parametrize("budget", [5, 6, 100])
def test_a_budget_of_everything_or_more_is_everything_with_weight_one(budget):
    found = build(torch.randn(5, 2), budget)
    assert found.indices.tolist() == [0, 1, 2, 3, 4]
    assert found.weights.tolist() == [1] * 5
    assert found.objective == 0


def test_an_unknown_selector_is_named_with_the_nearest():
    with pytest.raises(UnknownPlugin, match="did you mean 'kmedoids'"):
        build(torch.randn(5, 2), 2, selector="kmedoid")
