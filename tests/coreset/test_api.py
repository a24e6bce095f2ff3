"""``select_coreset`` and ``coreset_for`` as an outsider uses them."""

import pytest

pytest.importorskip("hypothesis")


import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

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


@pytest.mark.parametrize("selector", ["kmedoids-per-class", "kmedoids-same-label"])
def test_assignment_within_classes(selector):
    labels = np.arange(50) % 3
    found = select_coreset(points(), 8, labels=labels, selector=selector, assignment=True)
    assert np.array_equal(labels[found.indices[found.assignment]], labels)
    assert np.array_equal(np.bincount(found.assignment), found.weights)


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
        ((points(), 2.5), {}, BadOption, "budget must be a whole number, got 2.5"),
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


def test_numpys_own_types_give_the_coreset_of_torchs():
    x, y = points(60), np.arange(60) % 3
    expected = coreset_for(model(), (torch.from_numpy(x), torch.from_numpy(y)), 12)
    for inputs in (x.astype(np.float64), x.astype(np.float32), x[::-1][::-1]):
        for kind in (np.int32, np.uint8, np.int64):
            found = coreset_for(model(), (inputs, y.astype(kind)), 12)
            assert torch.equal(found.indices, expected.indices)


def test_inputs_get_the_models_precision():
    x, y = points(60), np.arange(60) % 3
    for kind in (torch.float64, torch.bfloat16):
        assert coreset_for(model().to(kind), (x, y), 12).weights.sum() == 60


def test_a_loader_gives_the_coreset_of_its_dataset():
    data = TensorDataset(torch.from_numpy(points(60)), torch.arange(60) % 3)
    found = coreset_for(model(), DataLoader(data, batch_size=9), 12)
    assert torch.equal(found.indices, coreset_for(model(), data, 12).indices)


class Counter(nn.Module):
    """Writes to a buffer of its own in every pass, in either mode."""

    def __init__(self):
        super().__init__()
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x):
        self.passes += 1
        return x


def network_with_buffers():
    torch.manual_seed(0)
    layers = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), Counter(), nn.Linear(6, 3)
    network = nn.Sequential(*layers).train()
    network[1].eval()  # a frozen layer in a model that trains
    return network


def state(network):
    values = {name: value.clone() for name, value in network.state_dict().items()}
    return values, [module.training for module in network.modules()]


def same(first, second):
    equal = all(torch.equal(first[0][name], second[0][name]) for name in first[0])
    return equal and first[1] == second[1]


@pytest.mark.parametrize("proxy", ["input", "logits", "last-layer-input", "last-layer"])
def test_a_model_with_buffers_and_dropout_is_looked_at_and_left_alone(proxy):
    network, data = network_with_buffers(), (points(60), np.arange(60) % 3)
    before = state(network)
    first = coreset_for(network, data, 12, proxy=proxy)
    assert same(before, state(network))
    again = coreset_for(network, data, 12, proxy=proxy, batch_size=7)
    assert torch.equal(first.indices, again.indices)
    assert all(value.grad is None for value in network.parameters())
    assert not network[4]._forward_hooks


@pytest.mark.parametrize(
    "data",
    [
        (points(60), np.arange(60) % 4),
        (points(60, dimension=5), np.arange(60) % 3),
        (np.where(np.arange(60)[:, None] == 50, np.nan, points(60)), np.arange(60) % 3),
    ],
)
def test_a_model_is_left_alone_by_an_error_too(data):
    network = network_with_buffers()
    before = state(network)
    with pytest.raises((BadData, BadOption)):
        coreset_for(network, data, 12, batch_size=16)
    assert same(before, state(network))


def test_a_coreset_where_gradients_are_switched_off():
    data = points(60), np.arange(60) % 3
    with torch.no_grad():
        found = coreset_for(model(), data, 12)
    assert torch.equal(found.indices, coreset_for(model(), data, 12).indices)


def test_own_labels_go_before_those_of_the_data():
    data = points(60), np.arange(60) % 3
    for proxy in ("input", "logits"):
        found = coreset_for(
            model(), data, 6, proxy=proxy, labels=np.arange(60) // 10, selector="kmedoids-per-class"
        )
        assert sorted((found.indices // 10).tolist()) == list(range(6))


@pytest.mark.parametrize("proxy", ["logits", "last-layer-input", "last-layer"])
def test_a_head_whose_weight_is_computed(proxy):
    plain, data = model(), (points(60), np.arange(60) % 3)
    expected = coreset_for(plain, data, 12, proxy=proxy)
    nn.utils.parametrizations.weight_norm(plain[2])
    found = coreset_for(plain, data, 12, proxy=proxy)
    # The weight differs by rounding, and the order in which points are tried hangs on every bit.
    assert found.objective == pytest.approx(expected.objective, rel=0.05)


def test_one_number_an_input():
    x = np.array([0.0, 1, 2, 10, 11])
    assert coreset_for(model(), (x, np.zeros(5, int)), 2, proxy="input").weights.tolist() == [3, 2]


def broken(value):
    network = model()
    with torch.no_grad():
        network[2].weight[0, 0] = value
    return network


class Tokens(nn.Module):
    """A last layer that sees every token of a sample."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 3)

    def forward(self, x):
        return self.head(x.reshape(len(x), 2, 2)).mean(dim=1)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "sentence"),
    [
        ({}, {"batch_size": 0}, BadOption, "batch_size must be at least 1, got 0"),
        ({}, {"batch_size": -1}, BadOption, "batch_size must be at least 1, got -1"),
        ({}, {"batch_size": 1.5}, BadOption, "batch_size must be a whole number"),
        ({}, {"proxy": "input", "batch_size": 0}, BadOption, "batch_size must be at least 1"),
        ({"budget": 0}, {}, BadOption, "budget must be at least 1, got 0"),
        ({"data": (points()[:0], [])}, {}, BadData, "at least one sample, got none"),
        ({"data": (points()[:0], [])}, {"proxy": "input"}, BadData, "at least one sample"),
        ({"labels": np.full(50, 3)}, {}, BadData, "labels must be from 0 to 2.*got 3"),
        ({"labels": np.full(50, -100)}, {}, BadData, "labels must be from 0 to 2.*got -100"),
        (
            {"labels": np.zeros(50) + 0.5},
            {},
            BadData,
            "labels of the dataset must be whole numbers, got 0.5",
        ),
        ({"model": nn.LazyLinear(3)}, {}, BadOption, "a parameter without a shape yet"),
        ({"model": nn.Linear(4, 3, device="meta")}, {}, BadOption, "parameter on the meta device"),
        ({"data": (points(), np.zeros(50, int), 1)}, {}, BadData, "got a tuple of 3"),
        ({"model": nn.Identity()}, {}, BadOption, "needs a model with an nn.Linear"),
        ({"model": nn.Conv2d(1, 2, 3)}, {}, BadOption, "without one; use proxy 'input'"),
        ({"model": nn.Linear}, {}, BadOption, "model must be an nn.Module"),
        ({"model": "resnet"}, {}, BadOption, "model must be an nn.Module, got 'resnet'"),
        ({"model": broken(np.nan)}, {}, BadData, "model must give finite scores"),
        (
            {"model": nn.Linear(9, 3)},
            {},
            BadOption,
            r"model cannot take a batch of inputs \[2, 4\]",
        ),
        ({"data": (points().astype(int), np.zeros(50, int))}, {}, BadOption, "cast them to float"),
        ({"model": Tokens()}, {"proxy": "last-layer"}, BadOption, "at several positions"),
        (
            {"model": nn.Sequential(nn.Linear(4, 3), nn.Flatten(0))},
            {},
            BadOption,
            r"class scores \[batch, classes\], got \[6\] for 2 samples",
        ),
    ],
)
def test_a_bad_model_or_dataset_is_one_sentence(arguments, options, error, sentence):
    data = arguments.get("data", (points(), arguments.get("labels", np.arange(50) % 3)))
    with pytest.raises(error, match=sentence):
        coreset_for(arguments.get("model", model()), data, arguments.get("budget", 5), **options)


def test_a_loader_that_drops_the_last_batch_is_refused_since_weights_would_not_sum_to_n():
    data = TensorDataset(torch.from_numpy(points()), torch.from_numpy(np.arange(50) % 3))
    with pytest.raises(BadOption, match=r"give its .dataset, or a loader with drop_last=False"):
        coreset_for(model(), DataLoader(data, batch_size=7, drop_last=True), 5)
    found = coreset_for(model(), DataLoader(data, batch_size=7), 5)
    assert float(found.weights.sum()) == 50


class Grumpy(nn.Module):
    """A classifier that fails on batches of more than two samples."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        if len(x) > 2:
            raise KeyError("mine")
        return self.layer(x)


class Broken(torch.utils.data.Dataset):
    """A dataset that fails at sample 3."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        if index == 3:
            raise OSError("disk gone")
        return torch.zeros(3), 0


def test_a_model_that_raises_is_named():
    data = torch.zeros(6, 3), torch.zeros(6, dtype=torch.int64)
    with pytest.raises(BadData, match="model Grumpy failed with KeyError: 'mine'") as caught:
        coreset_for(Grumpy(), data, 2)
    assert isinstance(caught.value.__cause__, KeyError)


def broken_stream():
    yield torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)
    raise OSError("disk gone")


@pytest.mark.parametrize("proxy", ["input", "last-layer-input"])
@pytest.mark.parametrize("make", [Broken, broken_stream])
def test_a_dataset_that_raises_is_named(make, proxy):
    with pytest.raises(BadData, match=r"dataset .* failed with OSError: disk gone") as caught:
        coreset_for(nn.Linear(3, 2), make(), 2, proxy=proxy)
    assert isinstance(caught.value.__cause__, OSError)


def test_an_option_that_does_not_exist_is_one_sentence():
    data = torch.zeros(6, 3), torch.zeros(6, dtype=torch.int64)
    with pytest.raises(BadOption, match="no option named 'sed'"):
        coreset_for(nn.Linear(3, 2), data, 2, sed=1)


@pytest.mark.filterwarnings("ignore:torch.quantize:UserWarning")
def test_quantised_gradients_are_refused():
    quantised = torch.quantize_per_tensor(torch.zeros(6, 3), 0.1, 0, torch.qint8)
    with pytest.raises(BadData, match=r"gradients must not be quantised, got torch\.qint8"):
        select_coreset(quantised, 2)


def test_weights_that_sum_to_n_in_the_mean_alone_say_so_in_numpy_too():
    points = np.random.default_rng(0).normal(size=(200, 3)) * 10 ** np.linspace(-3, 2, 200)[:, None]
    for gradients in (points, torch.from_numpy(points)):
        coreset = select_coreset(gradients, 100, selector="importance")
        assert coreset.sums_in_the_mean
        assert float(coreset.weights.sum()) != pytest.approx(200)


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        (1j * torch.ones(5, 3), "real numbers"),
        (np.ma.masked_array(np.ones((4, 2)), [[0, 1]] * 4), "masked"),
        (torch.eye(3).to_sparse(), "dense tensor"),
    ],
)
def test_a_space_refuses_what_is_no_matrix_of_numbers(points, sentence):
    with pytest.raises(BadData, match=sentence):
        fedcore.Euclidean(points)


def test_a_space_may_be_made_of_a_list():
    coreset = select_coreset(fedcore.Euclidean([[0.0], [1], [2], [10], [11], [12]]), 2)
    assert coreset.indices.tolist() == [1, 4]


class Named(nn.Module):
    """Its last layer is called by keyword, and shares its weight with the first."""

    def __init__(self):
        super().__init__()
        self.symbols, self.head = nn.Embedding(7, 5), nn.Linear(5, 7)
        self.head.weight = self.symbols.weight

    def forward(self, x):
        return self.head(input=self.symbols(x).mean(1))


def test_a_last_layer_may_be_called_by_keyword_and_gradients_be_off_outside():
    model, data = Named(), (torch.randint(7, (30, 4)), torch.randint(7, (30,)))
    expected = coreset_for(model, data, 5).indices
    for off in (torch.no_grad(), torch.inference_mode()):
        with off:
            assert coreset_for(model, data, 5).indices.tolist() == expected.tolist()


def test_tied_parameters_come_back_by_all_of_their_names():
    model, x = Named(), torch.randint(7, (30, 4))
    clients = [(x, torch.randint(7, (30,)))] * 3
    history = fedcore.simulate(clients, model, rounds=1, epochs=1, clients_per_round=2)
    assert history.params["head.weight"].equal(history.params["symbols.weight"])
    assert str(model.load_state_dict(history.params)) == "<All keys matched successfully>"


def test_a_class_for_every_position_is_a_loss_to_name():
    model = nn.Sequential(nn.Embedding(7, 5), nn.Linear(5, 7))
    x = torch.randint(7, (30, 4))
    coreset = coreset_for(model, (x, x), 5, loss=fedcore.losses.cross_entropy)
    assert float(coreset.weights.sum()) == pytest.approx(30)
