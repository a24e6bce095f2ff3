import numpy as np
import pytest
import torch
from torch import nn

from fedcore.errors import BadData, BadOption, UnknownPlugin
from fedcore.models.logistic import LinearClassifier
from fedcore.sim.federation import check_dataset, federate, federation_from_model
from fedcore.sources.clients import LazyClients
from fedcore.types import ClientData, FederatedDataset


def dataset(client, test=None):
    return FederatedDataset({4: client}, test, num_classes=2)


def data(x=None, y=None):
    x = torch.zeros(3, 2) if x is None else torch.tensor(x)
    return ClientData(x, torch.tensor([0, 1, 1]) if y is None else torch.tensor(y))


@pytest.mark.parametrize(
    ("client", "sentence"),
    [
        (data(x=[[0.0, 1], [float("nan"), 0], [1, 1]]), "client 4 has NaN or infinity"),
        (data(x=[[0.0, 1], [float("inf"), 0], [1, 1]]), "client 4 has NaN or infinity"),
        (data(x=[[0.0]], y=[0, 1]), "client 4 has 1 inputs but 2 labels"),
        (ClientData(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long)), "client 4 has no samp"),
        (data(y=[0, 1, 2]), "client 4 has label 2; labels must be 0 to 1"),
        (data(y=[0, -1, 1]), "client 4 has label -1"),
        (data(y=[0.0, 1.5, 1.0]), "labels of client 4 must be whole numbers, got 1.5 for sample 1"),
        (data(y=[[0], [1], [1]]), r"labels of client 4 must be one class per sample, got shape"),
    ],
)
def test_bad_data_is_refused_by_the_name_of_its_owner(client, sentence):
    with pytest.raises(BadData, match=sentence):
        check_dataset(dataset(client))


def test_the_test_set_is_checked_too():
    with pytest.raises(BadData, match="the test set has label 5"):
        check_dataset(dataset(data(), data(y=[0, 5, 1])))


@pytest.mark.parametrize("classes", [10**9, 0, 2.5, None])
def test_the_number_of_classes_is_one(classes):
    with pytest.raises(BadOption, match="the number of classes must be"):
        check_dataset(FederatedDataset({0: data()}, None, classes))


def test_arrays_of_any_precision_become_tensors_that_models_take():
    arrays = ClientData(np.zeros((3, 2)), np.array([0, 1, 1], np.uint8))
    for clients in ({4: arrays}, LazyClients([3], lambda client: arrays)):
        made = check_dataset(FederatedDataset(clients, arrays, 2))
        for part in (*made.clients.values(), made.test):
            assert (part.x.dtype, part.y.dtype) == (torch.float32, torch.int64)


def test_clients_have_numbers_since_what_is_written_is_read_again_by_them():
    made = check_dataset(FederatedDataset({np.int64(4): data(), 2: data()}, None, 2))
    assert [(type(number), number) for number in made.clients] == [(int, 4), (int, 2)]
    for name in ("ward 3", -1, 2.5):
        with pytest.raises(BadOption, match=rf"client must be .*, got '?{name}"):
            check_dataset(FederatedDataset({name: data()}, None, 2))


def test_no_clients_at_all():
    with pytest.raises(BadData, match="at least one client"):
        check_dataset(FederatedDataset({}, None, 2))


def test_the_initial_model_depends_on_the_seed_alone_and_disturbs_no_other_draw():
    torch.manual_seed(123)
    expected = torch.rand(1)
    torch.manual_seed(123)
    first = federation_from_model(dataset(data()), "logistic", 7).initial
    assert torch.equal(torch.rand(1), expected)
    second = federation_from_model(dataset(data()), "logistic", 7).initial
    other = federation_from_model(dataset(data()), "logistic", 8).initial
    assert torch.equal(first["linear.weight"], second["linear.weight"])
    assert not torch.equal(first["linear.weight"], other["linear.weight"])


def test_a_named_model_must_take_the_samples_and_score_their_classes(tmp_path):
    single = ClientData(torch.zeros(3), torch.tensor([0, 1, 1]))  # one number a sample
    with pytest.raises(
        BadOption, match=r"model cannot take a batch of inputs \[1\] of type float32"
    ):
        federation_from_model(dataset(single), "logistic", 0)
    path = tmp_path / "three.py"
    path.write_text("from torch import nn\ndef build(x, classes):\n    return nn.Linear(2, 3)\n")
    with pytest.raises(BadOption, match=r"three.py' scores 3 classes, but the data has 2"):
        federation_from_model(dataset(data()), str(path), 0)


def test_an_unknown_model_is_refused():
    with pytest.raises(UnknownPlugin, match="did you mean 'logistic'"):
        federation_from_model(dataset(data()), "logistik", 0)


def test_linear_models_compare_inputs_and_networks_compare_gradients():
    network = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    for model, proxy in (
        (LinearClassifier(2, 2), "input"),
        (nn.Sequential(nn.Flatten(), nn.Linear(2, 2)), "input"),
        (network, "last-layer-input"),
    ):
        assert federate(dataset(data()), model).proxy == proxy


ODD = [torch.zeros(3, 1), torch.zeros(3, 2).long()]


@pytest.mark.parametrize("odd", ODD)
def test_all_clients_and_the_test_set_need_one_kind_of_sample(odd):
    labels = torch.tensor([0, 1, 1])
    other = ClientData(odd, labels)
    with pytest.raises(BadData, match=r"client 6 has inputs of .*, but client 4 of shape"):
        check_dataset(FederatedDataset({4: data(), 5: data(), 6: other}, None, 2))
    with pytest.raises(BadData, match=r"the test set has inputs of .*, but client 4 of shape"):
        check_dataset(dataset(data(), other))


@pytest.mark.parametrize("odd", ODD)
def test_clients_loaded_on_demand_are_held_to_the_first(odd):
    labels = torch.tensor([0, 1, 1])
    lazy = LazyClients([3, 3], lambda client: ClientData(odd, labels) if client else data())
    checked = check_dataset(FederatedDataset(lazy, None, 2))
    assert len(checked.clients[0]) == 3
    with pytest.raises(BadData, match=r"client 1 has inputs of .*, but client 0 of shape"):
        checked.clients[1]


def test_clients_in_a_list_are_refused_with_what_makes_a_dict_of_it():
    own = ClientData(torch.zeros(2, 2), torch.zeros(2, dtype=torch.long))
    with pytest.raises(BadData, match=r"got a list; dict\(enumerate\(clients\)\) makes one"):
        check_dataset(FederatedDataset([own], None, 2))
