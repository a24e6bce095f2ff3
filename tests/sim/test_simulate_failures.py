"""What a user's own model, data or callback raises inside ``simulate`` is one sentence."""

import numpy as np
import pytest
import torch
from torch import nn

import fedcore
from fedcore.errors import BadData, BadOption

QUICK = {"rounds": 2, "epochs": 2, "clients_per_round": 2, "learning_rate": 0.1}
X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
Y = np.arange(40) % 3


class Moody(nn.Module):
    """A classifier that fails on batches of more than ``patience`` samples."""

    def __init__(self, patience):
        super().__init__()
        self.layer, self.patience = nn.Linear(5, 3), patience

    def forward(self, x):
        if len(x) > self.patience:
            raise KeyError("mine")
        return self.layer(x)


@pytest.mark.parametrize("patience", [0, 1, 5])
def test_a_model_that_raises_is_named(patience):
    with pytest.raises((BadData, BadOption), match=r"model.*mine") as caught:
        fedcore.simulate([(X, Y)] * 3, Moody(patience), **QUICK)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "\n" not in str(caught.value)


def test_inputs_outside_the_range_of_an_embedding():
    symbols = np.random.default_rng(0).integers(0, 10, size=(40, 5))
    beyond = symbols.copy()
    beyond[30, 2] = 10
    model = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(20, 3))
    with pytest.raises(BadData, match="range of its embedding"):
        fedcore.simulate([(symbols, Y), (beyond, Y), (beyond, Y)], model, device="cpu", **QUICK)


def test_an_error_that_is_not_the_models_stays_what_it_is():
    def stop(record):
        raise ZeroDivisionError("of the caller")

    with pytest.raises(ZeroDivisionError, match="of the caller"):
        fedcore.simulate([(X, Y)] * 3, nn.Linear(5, 3), on_round=stop, **QUICK)


def test_on_round_must_be_callable():
    with pytest.raises(BadOption, match=r"on_round must be a function.*got 3"):
        fedcore.simulate([(X, Y)] * 3, nn.Linear(5, 3), on_round=3, **QUICK)


@pytest.mark.filterwarnings("ignore:torch.quantize:UserWarning")
def test_quantised_inputs_are_refused():
    quantised = torch.quantize_per_tensor(torch.from_numpy(X), 0.1, 0, torch.qint8)
    with pytest.raises(BadData, match="inputs of client 0 must not be quantised"):
        fedcore.simulate([(quantised, Y)] * 3, nn.Linear(5, 3), **QUICK)


def test_a_loader_that_raises_is_named_with_its_client():
    def load(client):
        if client == 2:
            raise OSError("disk gone")
        return fedcore.ClientData(torch.from_numpy(X), torch.from_numpy(Y))

    with pytest.raises(BadData, match="loading client 2 failed with OSError: disk gone") as caught:
        fedcore.simulate(
            fedcore.LazyClients([40] * 3, load), nn.Linear(5, 3), **QUICK | {"clients_per_round": 3}
        )
    assert isinstance(caught.value.__cause__, OSError)
