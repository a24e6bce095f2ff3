import numpy as np
import pytest
import torch

from fedcore.coreset.build import build_coreset
from fedcore.errors import UnknownPlugin
from fedcore.types import CoresetSpec


def build(points, budget, selector="kmedoids"):
    labels = torch.zeros(len(points), dtype=torch.long)
    spec = CoresetSpec(budget, selector, "input")
    return build_coreset(points, labels, spec, np.random.default_rng(0))


@pytest.mark.parametrize("budget", [5, 6, 100])
def test_a_budget_of_everything_or_more_is_everything_with_weight_one(budget):
    found = build(torch.randn(5, 2), budget)
    assert found.indices.tolist() == [0, 1, 2, 3, 4]
    assert found.weights.tolist() == [1] * 5
    assert found.objective == 0


def test_points_of_any_shape_are_compared_as_vectors():
    images = torch.randn(9, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    flat = build(images.reshape(9, 16), 3)
    assert torch.equal(build(images, 3).indices, flat.indices)


def test_an_unknown_selector_is_named_with_the_nearest():
    with pytest.raises(UnknownPlugin, match="did you mean 'kmedoids'"):
        build(torch.randn(5, 2), 2, selector="kmedoid")
