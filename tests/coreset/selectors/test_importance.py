import math
from itertools import product

import numpy as np
import pytest
import torch

from fedcore.coreset.build import build_coreset
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.selectors import importance

# Lengths 1, 2 and 5: p = 1/8, 2/8, 5/8.
POINTS = torch.tensor([[1.0, 0.0], [0.0, -2.0], [3.0, 4.0]])
CHANCES = (1 / 8, 2 / 8, 5 / 8)


class Told:
    """In place of a generator: it draws what it is told, and notes the chances it is given."""

    def __init__(self, drawn):
        self.drawn = np.array(drawn)
        self.chances = None

    def choice(self, among, *, size, p=None, replace=True):
        assert (among, size) == (len(POINTS), len(self.drawn))
        assert replace == (p is not None)
        self.chances = p
        return self.drawn


def total(found):
    return (found.weights[:, None] * POINTS[found.indices].double()).sum(0)


def test_the_mean_over_all_draws_is_the_sum():
    """Two draws of three, with replacement: Σ over all 9 of their chance times Σ w g."""
    candidates, mean, weight = Candidates(Euclidean(POINTS)), torch.zeros(2).double(), 0.0
    for drawn in product(range(3), repeat=2):
        generator = Told(drawn)
        found = importance.build(gate=1.0)(candidates, 2, generator)
        assert generator.chances == pytest.approx(CHANCES)
        chance = math.prod(CHANCES[j] for j in drawn)
        mean += chance * total(found)
        weight += chance * float(found.weights.sum())
    assert mean.tolist() == pytest.approx([4.0, 2.0])
    assert weight == pytest.approx(3)


def test_weights_are_one_over_n_p_for_each_time_it_was_drawn():
    found = importance.build(gate=1.0)(Candidates(Euclidean(POINTS)), 2, Told([2, 2]))
    assert found.indices.tolist() == [2]
    assert found.weights.tolist() == pytest.approx([2 / (2 * 5 / 8)])
    assert found.sums_in_the_mean


@pytest.mark.parametrize(("gate", "opens"), [(0.0, False), (1.18, True), (1.19, False)])
def test_the_gate(gate, opens):
    """τ = √(3 (1 + 4 + 25) / 64) = 1.186; the paper's gate is (3 + 3 · 2) / (3 · 2) = 1.5."""
    generator = Told([0, 2])
    found = importance.build(gate=gate)(Candidates(Euclidean(POINTS)), 2, generator)
    assert (generator.chances is not None) == opens
    assert found.sums_in_the_mean == opens
    if not opens:
        assert found.weights.tolist() == [1.5, 1.5]


def test_the_papers_gate_opens_for_a_few_long_gradients():
    """One of 100 has all the length: τ = √100 = 10, above (100 + 90) / 90 for 30 draws."""
    points = torch.zeros(100, 1)
    points[7] = 3.0
    found = importance.select(Candidates(Euclidean(points)), 30, np.random.default_rng(0))
    assert (found.indices.tolist(), found.weights.tolist()) == ([7], [1.0])


def test_weights_that_do_not_sum_to_the_samples_are_no_failure():
    candidates = Candidates(Euclidean(POINTS))
    options = (("gate", 1.0),)
    found = build_coreset(candidates, 2, "importance", np.random.default_rng(0), options)
    assert not found.fell_back
    assert float(found.weights.sum()) != pytest.approx(3)
