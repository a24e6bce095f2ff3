from itertools import combinations

import numpy as np
import pytest
import torch

from fedcore.coreset.build import build_coreset
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.selectors import infobatch
from fedcore.errors import BadOption

# Mean loss 3: two of eight lie above it.
LOSSES = torch.tensor([1.0, 9.0, 0.0, 2.0, 1.0, 8.0, 2.0, 1.0])
POINTS = torch.arange(16.0).reshape(8, 2)


class Told:
    """In place of a generator: it draws what it is told, of what it is given."""

    def __init__(self, drawn):
        self.drawn = np.array(drawn)

    def choice(self, among, size, *, replace):
        assert not replace
        assert size == len(self.drawn)
        assert set(self.drawn) <= set(among)
        return self.drawn


def select(budget, generator, losses=LOSSES):
    return infobatch.select(Candidates(Euclidean(POINTS), losses=losses), budget, generator)


def test_hard_samples_weigh_one_and_the_drawn_as_many_as_they_stand_for():
    """Budget 5, two above the mean: three of the other six, each for two."""
    found = select(5, Told([7, 0, 3]))
    assert found.indices.tolist() == [0, 1, 3, 5, 7]
    assert found.weights.tolist() == [2.0, 1.0, 2.0, 1.0, 2.0]


def test_the_mean_over_all_draws_is_the_sum():
    """Three of the six others, all twenty triples equally likely."""
    others = [0, 2, 3, 4, 6, 7]
    total = torch.zeros(2).double()
    triples = list(combinations(others, 3))
    for drawn in triples:
        found = select(5, Told(drawn))
        total += (found.weights[:, None] * POINTS[found.indices].double()).sum(0)
    assert (total / len(triples)).tolist() == pytest.approx(POINTS.sum(0).tolist())


def test_where_more_than_half_of_the_budget_is_hard_a_quantile_takes_the_means_place():
    """Budget 3: two are more than 1.5, so the largest floor(3 / 2) = 1 is kept."""
    found = select(3, Told([5, 2]))
    assert found.indices.tolist() == [1, 2, 5]
    assert found.weights.tolist() == [1.0, 3.5, 3.5]


def test_a_budget_of_one_is_a_plain_draw():
    found = select(1, Told([4]))
    assert found.indices.tolist() == [4]
    assert found.weights.tolist() == [8.0]


@pytest.mark.parametrize("budget", range(1, 8))
def test_equal_losses_leave_a_plain_draw(budget):
    found = select(budget, np.random.default_rng(0), torch.ones(8))
    assert len(found.indices) == budget
    assert found.weights.tolist() == pytest.approx([8 / budget] * budget)


@pytest.mark.parametrize("size", [7, 10, 49, 1000])
def test_at_most_half_of_any_budget_is_hard_and_all_of_it_is_used(size):
    losses = torch.from_numpy(np.random.default_rng(size).lognormal(0, 2, size))
    candidates = Candidates(Euclidean(torch.zeros(size, 1)), losses=losses)
    for budget in range(1, size, max(1, size // 50)):
        found = infobatch.select(candidates, budget, np.random.default_rng(0))
        assert len(found.indices) == budget
        assert float(found.weights.sum()) == pytest.approx(size)
        whole = found.weights == 1.0
        assert 2 * int(whole.sum()) <= budget or size == budget


def test_without_losses_it_says_so():
    with pytest.raises(BadOption, match="'infobatch' needs losses"):
        build_coreset(Candidates(Euclidean(POINTS)), 3, "infobatch", np.random.default_rng(0))
