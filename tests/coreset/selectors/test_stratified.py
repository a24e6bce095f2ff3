from itertools import combinations, product

import numpy as np
import pytest
import torch

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.selectors import stratified

POINTS = torch.tensor([[1.0], [2.0], [4.0], [8.0], [16.0], [32.0]])
LABELS = torch.tensor([0, 1, 0, 0, 1, 0])


class Told:
    """In place of a generator: what it draws, one after the other."""

    def __init__(self, *draws):
        self.draws = list(draws)

    def choice(self, among, *, size, replace):
        drawn = np.array(self.draws.pop(0))
        assert not replace
        assert len(drawn) == size
        assert drawn.max() < among
        return drawn


def total(found):
    return float((found.weights[:, None] * POINTS[found.indices].double()).sum())


def test_every_class_has_its_share_and_the_mean_over_all_draws_is_the_sum():
    """Three of six, classes of 4 and 2: two and one; Σ = 63 over all C(4, 2) · C(2, 1) draws."""
    candidates = Candidates(Euclidean(POINTS), LABELS)
    totals = []
    for first, second in product(combinations(range(4), 2), combinations(range(2), 1)):
        found = stratified.select(candidates, 3, Told(first, second))
        assert LABELS[found.indices].bincount().tolist() == [2, 1]
        assert found.weights.tolist() == [2.0, 2.0, 2.0]
        totals.append(total(found))
    assert len(totals) == 12
    assert np.mean(totals) == pytest.approx(63)


def test_shares_that_are_no_whole_numbers_are_unbiased_too():
    """Four of six: exact shares 2.67 and 1.33, so three weigh 4/3 each and one weighs 2."""
    candidates = Candidates(Euclidean(POINTS), LABELS)
    totals = []
    for first, second in product(combinations(range(4), 3), combinations(range(2), 1)):
        found = stratified.select(candidates, 4, Told(first, second))
        expected = torch.where(LABELS[found.indices] == 0, 4 / 3, 2.0).double()
        assert torch.allclose(found.weights, expected)
        totals.append(total(found))
    assert np.mean(totals) == pytest.approx(63)


def test_fewer_samples_than_classes_leave_out_no_class_for_good():
    """One of six: each alike, with weight 6; a class without a share would bias the mean."""
    candidates = Candidates(Euclidean(POINTS), LABELS)
    totals = [total(stratified.select(candidates, 1, Told([j]))) for j in range(6)]
    assert totals == pytest.approx([6 * 2.0**j for j in range(6)])
    assert np.mean(totals) == pytest.approx(63)


def test_nobody_is_assigned_so_there_is_no_objective():
    found = stratified.select(Candidates(Euclidean(POINTS), LABELS), 3, np.random.default_rng(0))
    assert (found.objective, found.assignment) == (None, None)
