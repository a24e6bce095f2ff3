import pytest
import torch

from fedcore.server.evaluate import evaluate, pool
from fedcore.sim.federation import federation_from_model
from fedcore.sim.measure import Measure
from fedcore.sources.clients import LazyClients
from fedcore.types import FederatedDataset

CPU = torch.device("cpu")


@pytest.fixture
def clients(build_client):
    return {number: build_client(30 + number, seed=number) for number in range(3)}


@pytest.mark.parametrize("lazily", [False, True])
def test_models_are_measured_on_everything_or_on_a_fixed_draw(clients, build_client, lazily):
    held_out = build_client(20, seed=9)
    known = clients
    if lazily:
        known = LazyClients([len(data) for data in clients.values()], clients.__getitem__)
    federation = federation_from_model(FederatedDataset(known, held_out, 2), "logistic", 0)
    params = federation.initial
    whole = Measure(federation, 0, CPU, threads=2)
    expected = evaluate(federation.task, params, pool(clients.values()))
    assert whole.train(params).loss == pytest.approx(expected.loss)
    on_test = evaluate(federation.task, params, held_out)
    assert whole.test(params).loss == pytest.approx(on_test.loss)
    few, again = (Measure(federation, 10, CPU, threads=1) for _ in range(2))
    assert few.train(params) == again.train(params)
    hits = few.train(params).accuracy * 10
    assert hits == pytest.approx(round(hits))


def test_without_held_out_data_there_is_no_score_on_them(clients):
    federation = federation_from_model(FederatedDataset(clients, None, 2), "logistic", 0)
    assert Measure(federation, 0, CPU, threads=1).test(federation.initial) is None
