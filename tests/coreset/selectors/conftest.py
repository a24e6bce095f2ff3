"""Selectors on points of the line and elsewhere."""

import numpy as np
import pytest
import torch

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean


@pytest.fixture
def run():
    def select(module, points, budget, **known):
        candidates = Candidates(Euclidean(points), **known)
        return module.select(candidates, budget, np.random.default_rng(0))

    return select


@pytest.fixture
def line():
    return torch.tensor([[0.0], [1], [2], [10], [11]])
