import pytest

pytest.importorskip("hypothesis")

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.selectors import kmedoids, uniform, uniform_plain
from fedcore.coreset.selectors.kmedoids_per_class import select_per_class, split_budget


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12).filter(any), st.integers(1, 200))
def test_shares_add_up_to_the_budget_and_fit_their_classes(sizes, budget):
    sizes = np.array(sizes)
    shares = split_budget(budget, sizes)
    assert shares.sum() == min(budget, sizes.sum())
    assert (shares >= 0).all()
    assert (shares <= sizes).all()
    if budget >= (sizes > 0).sum():
        assert (shares[sizes > 0] >= 1).all()


def test_largest_remainders_by_hand():
    # 10 over sizes 47, 33, 20: exact shares 4.7, 3.3, 2.0; the spare one goes to the .7
    assert split_budget(10, np.array([47, 33, 20])).tolist() == [5, 3, 2]


def test_a_small_class_is_not_forgotten_where_the_budget_allows_it():
    assert split_budget(3, np.array([1000, 1, 1])).tolist() == [1, 1, 1]


def test_with_fewer_places_than_classes_the_largest_classes_are_served():
    assert split_budget(2, np.array([5, 90, 7])).tolist() == [0, 1, 1]


def test_samples_of_a_class_without_a_share_still_count():
    points = torch.arange(12.0).reshape(12, 1)
    labels = torch.tensor([0] * 6 + [1] * 5 + [2])
    candidates = Candidates(Euclidean(points), labels)
    found = select_per_class(uniform.select, candidates, 2, np.random.default_rng(0))
    assert len(found.indices) == 2
    assert found.weights.sum() == 12


def test_every_sample_is_assigned_to_the_nearest_chosen_one_of_its_class():
    draw = np.random.default_rng(1)
    points = torch.from_numpy(draw.normal(size=(40, 3))).float()
    labels = torch.from_numpy(draw.permutation(np.arange(40) % 4))
    labels[labels == 3] = torch.arange(10) % 3
    labels[17] = 9  # a class of one, which is all chosen
    found = select_per_class(kmedoids.select, Candidates(Euclidean(points), labels), 9, draw)
    distance = torch.cdist(points.double(), points[found.indices].double())
    distance[labels[:, None] != labels[found.indices][None, :]] = float("inf")
    assert torch.equal(found.assignment, distance.argmin(dim=1))
    assert torch.equal(torch.bincount(found.assignment).double(), found.weights)
    assert float(distance.min(dim=1).values.sum()) == pytest.approx(found.objective, rel=1e-5)


def test_all_classes_together_have_the_time_that_was_given():
    candidates = Candidates(Euclidean(torch.rand(60, 1)), torch.arange(60) % 7 // 2, seconds=3.0)
    given = []

    def noting(some, budget, draw):
        given.append(some.seconds)
        return uniform.select(some, budget, draw)

    select_per_class(noting, candidates, 20, np.random.default_rng(0))
    assert len(given) == 4
    assert sum(given) == pytest.approx(3.0)


def test_where_nobody_stands_for_anybody_there_is_no_assignment():
    candidates = Candidates(Euclidean(torch.arange(12.0).reshape(12, 1)), torch.arange(12) % 2)
    found = select_per_class(uniform_plain.select, candidates, 4, np.random.default_rng(0))
    assert found.assignment is None
