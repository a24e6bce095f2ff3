import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.per_class import select_per_class, split_budget
from fedcore.coreset.selectors import uniform


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
