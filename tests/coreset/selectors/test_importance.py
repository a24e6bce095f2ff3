import math
from itertools import product

import numpy as np
import pytest
import torch

from fedcore.coreset.build import build_coreset
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.selectors import importance

# Lengths 8, 1, 1 and 0: p = 0.8, 0.1, 0.1 and 0; √(4 · 0.66) = 1.62.
POINTS = torch.tensor([[0.0, 8.0], [1.0, 0.0], [0.0, -1.0], [0.0, 0.0]])
CHANCES = (0.8, 0.1, 0.1, 0.0)


class Told:
    """In place of a generator: it draws what it is told, and notes the chances it is given."""

    def __init__(self, drawn):
        self.drawn = np.array(drawn)
        self.chances = None

    def choice(self, among, *, size, p=None, replace=True):
        assert size == len(self.drawn)
        assert self.drawn.max() < among
        assert replace == (p is not None)
        self.chances = p
        return self.drawn


def test_the_mean_over_all_draws_is_the_sum():
    """Three draws of four, with replacement: Σ over all 64 of their chance times Σ w g."""
    candidates, mean, weight = Candidates(Euclidean(POINTS)), torch.zeros(2).double(), 0.0
    for drawn in product(range(3), repeat=3):  # what has no gradient is never drawn
        generator = Told(drawn)
        found = importance.select(candidates, 3, generator)
        assert generator.chances == pytest.approx(CHANCES)
        chance = math.prod(CHANCES[j] for j in drawn)
        mean += chance * (found.weights[:, None] * POINTS[found.indices].double()).sum(0)
        weight += chance * float(found.weights.sum())
    assert mean.tolist() == pytest.approx([1.0, 7.0])
    assert weight == pytest.approx(3)  # the fourth, with no gradient, has no weight either


def test_weights_are_one_over_n_p_for_each_time_it_was_drawn():
    found = importance.select(Candidates(Euclidean(POINTS)), 3, Told([2, 0, 2]))
    assert found.indices.tolist() == [0, 2]
    assert found.weights.tolist() == pytest.approx([1 / (3 * 0.8), 2 / (3 * 0.1)])
    assert found.sums_in_the_mean


@pytest.mark.parametrize(("budget", "opens"), [(2, False), (3, True)])
def test_the_gate(budget, opens):
    """1.62 is below (4 + 3 · 2) / (3 · 2) = 1.67 and above (4 + 3 · 3) / (3 · 3) = 1.44."""
    generator = Told(range(budget))
    found = importance.select(Candidates(Euclidean(POINTS)), budget, generator)
    assert (generator.chances is not None) == opens
    assert found.sums_in_the_mean == opens
    if not opens:
        assert found.weights.tolist() == [2.0, 2.0]


def test_no_gradients_at_all_leave_a_uniform_draw():
    found = importance.select(Candidates(Euclidean(0 * POINTS)), 2, np.random.default_rng(0))
    assert found.weights.tolist() == [2.0, 2.0]


def test_weights_that_do_not_sum_to_the_samples_are_no_failure():
    candidates = Candidates(Euclidean(POINTS))
    found = build_coreset(candidates, 3, "importance", np.random.default_rng(0))
    assert found.sums_in_the_mean
    assert not found.fell_back
    assert float(found.weights.sum()) != pytest.approx(4)
