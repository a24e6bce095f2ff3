"""``select_coreset`` and ``coreset_for`` as an outsider uses them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import TensorDataset

import fedcore
from fedcore import OuterProduct, coreset_for, select_coreset
from fedcore.errors import BadData, BadOption, UnknownPlugin


def points(size=50, dimension=4, seed=0):
    return np.random.default_rng(seed).normal(size=(size, dimension)).astype(np.float32)


def test_arrays_and_tensors_give_the_same():
    from_numpy, from_torch = select_coreset(points(), 8), select_coreset(torch.tensor(points()), 8)
    assert np.array_equal(from_numpy.indices, from_torch.indices.numpy())
    assert isinstance(from_torch.weights, torch.Tensor)


def test_a_coreset_of_one_indexes_an_array_as_any_other():
    """A tensor of one element would index a NumPy array as a number does."""
    assert points()[select_coreset(points(), 1).indices].shape == (1, 4)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 80), st.data())
def test_weights_are_whole_numbers_that_sum_to_n_and_the_objective_is_the_sum(size, data):
    budget = data.draw(st.integers(1, size - 1))
    array = points(size, 3, data.draw(st.integers(0, 99)))
    found = select_coreset(array, budget, assignment=True)
    assert found.indices.tolist() == sorted(set(found.indices.tolist()))
    assert len(found.indices) == budget
    assert found.weights.sum() == size
    assert np.array_equal(found.weights, found.weights.round())
    assert (found.weights >= 1).all()
    own = array[found.indices[found.assignment]].astype(np.float64)
    recomputed = np.linalg.norm(array.astype(np.float64) - own, axis=1).sum()
    assert found.objective == pytest.approx(recomputed, rel=1e-5)


@pytest.mark.parametrize("selector", ["kmedoids", "kmedoids-per-class", "kmedoids-same-label"])
def test_a_permutation_changes_nothing_but_the_order(selector):
    array, order = points(40), np.random.default_rng(5).permutation(40)
    labels = np.arange(40) % 3
    plain = select_coreset(array, 9, labels=labels, selector=selector)
    shuffled = select_coreset(array[order], 9, labels=labels[order], selector=selector)
    assert sorted(order[shuffled.indices].tolist()) == plain.indices.tolist()


def test_assignment_only_on_request():
    assert select_coreset(points(), 5).assignment is None
    assert select_coreset(points(), 5, assignment=True).assignment.shape == (50,)


def test_a_space_goes_in_as_it_is():
    space = OuterProduct(torch.randn(20, 3), torch.randn(20, 4), True)
    assert select_coreset(space, 5).weights.sum() == 20


def test_a_warm_start_and_a_time_limit_are_taken():
    first = select_coreset(points(), 8)
    again = select_coreset(points(), 8, start=first.indices, seconds=5.0)
    assert again.objective <= first.objective + 1e-5


@pytest.mark.parametrize(
    "array",
    [
        points().T.copy().T,  # not contiguous
        (points() * 100).astype(int),
        points().astype(np.float64),
        points().astype(np.float16),
        points()[::2],
    ],
)
def test_arrays_of_any_kind(array):
    assert select_coreset(array, 5).weights.sum() == len(array)


def test_one_number_per_sample():
    assert select_coreset(np.array([0.0, 1, 2, 10, 11]), 2).weights.tolist() == [3, 2]


def test_one_sample():
    found = select_coreset(np.ones((1, 3)), 4)
    assert (found.indices.tolist(), found.weights.tolist()) == ([0], [1])


def test_a_budget_above_n_is_everything():
    found = select_coreset(points(), 99)
    assert found.indices.tolist() == list(range(50))
    assert found.gradient_error == 0


@pytest.mark.parametrize(
    ("arguments", "options", "error", "sentence"),
    [
        ((np.full((3, 2), np.nan), 1), {}, BadData, "gradients must be finite"),
        ((np.array([[1.0], [np.inf]]), 1), {}, BadData, "row 1"),
        ((np.zeros((0, 3)), 1), {}, BadData, "at least one sample, got none"),
        ((np.zeros((2, 2, 2)), 1), {}, BadData, "gradients must be a matrix"),
        ((np.array(["a", "b"]), 1), {}, BadData, "gradients must be numbers"),
        ((points(), 0), {}, BadOption, "budget must be at least 1, got 0"),
        ((points(), -2), {}, BadOption, "budget must be at least 1, got -2"),
        ((points(), 2.5), {}, BadOption, "budget must be a whole number of samples, got 2.5"),
        ((points(), True), {}, BadOption, "budget must be a whole number"),
        ((points(), 5), {"labels": np.zeros(7)}, BadData, r"labels must be one value per sample"),
        ((points(), 5), {"selector": "craigg"}, UnknownPlugin, "did you mean 'craig'"),
        ((points(), 5), {"selector": "loss-topk"}, BadOption, "needs losses"),
    ],
)
def test_bad_input_is_one_sentence(arguments, options, error, sentence):
    with pytest.raises(error, match=sentence):
        select_coreset(*arguments, **options)


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


@pytest.mark.parametrize("proxy", ["input", "logits", "last-layer-input", "last-layer"])
def test_a_coreset_for_a_model_and_a_dataset(proxy):
    x, y = torch.from_numpy(points(60)), torch.arange(60) % 3
    from_pair = coreset_for(model(), (x, y), 12, proxy=proxy, batch_size=16)
    from_dataset = coreset_for(model(), TensorDataset(x, y), 12, proxy=proxy, batch_size=7)
    assert torch.equal(from_pair.indices, from_dataset.indices)
    assert from_pair.weights.sum() == 60


def test_every_selector_takes_what_a_model_yields():
    x, y = torch.from_numpy(points(40)), torch.arange(40) % 3
    for name in fedcore.plugins.names("selector"):
        assert coreset_for(model(), (x, y), 9, selector=name).weights.sum() == pytest.approx(40)


def test_an_unknown_proxy_is_refused():
    with pytest.raises(BadOption, match="proxy must be one of"):
        coreset_for(model(), (points(), np.zeros(50, int)), 5, proxy="gradient")


def test_inputs_without_labels_are_refused():
    with pytest.raises(BadData, match="50 inputs but 3 labels"):
        coreset_for(model(), (points(), np.zeros(3, int)), 5)
