import math

import numpy as np
import pytest
import torch
from torch import nn

from fedcore.seeding import stream
from fedcore.sim import measure as module
from fedcore.sim.federation import federation_from_model
from fedcore.sim.measure import Evaluator, Measure, draw, pool, slow_and_worst
from fedcore.sources.clients import LazyClients
from fedcore.task import Task
from fedcore.types import ClientData, FederatedDataset

CPU = torch.device("cpu")


def evaluate(task, params, data):
    return Evaluator([task.logits]).score(params, [data])


def test_by_hand():
    """Scores all zero: every loss is log 2, and argmax says class 0."""
    task = Task(nn.Linear(3, 2))
    zeros = {name: torch.zeros_like(value) for name, value in task.initial_params().items()}
    data = ClientData(torch.randn(4, 3), torch.tensor([0, 1, 0, 0]))
    score = evaluate(task, zeros, data)
    assert score.loss == pytest.approx(math.log(2))
    assert score.accuracy == 0.75


def test_chunks_change_nothing(build_client, monkeypatch):
    task = Task(nn.Linear(3, 2))
    whole = evaluate(task, task.initial_params(), build_client(50))
    monkeypatch.setattr(module, "CHUNK", 7)
    parts = evaluate(task, task.initial_params(), build_client(50))
    assert parts.loss == pytest.approx(whole.loss)
    assert parts.accuracy == whole.accuracy


def test_networks_take_smaller_chunks_on_a_cpu(build_client, monkeypatch):
    task = Task(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))
    whole = evaluate(task, task.initial_params(), build_client(50))
    monkeypatch.setattr(module, "CPU_CHUNK", 7)
    parts = evaluate(task, task.initial_params(), build_client(50))
    assert parts.loss == pytest.approx(whole.loss)
    assert parts.accuracy == whole.accuracy


def test_pooled_loss_weighs_clients_by_their_samples(build_client):
    """L(w) = Σ p^i L^i(w) with p^i = m^i / Σ m (Eq. 1)."""
    task = Task(nn.Linear(3, 2))
    params = task.initial_params()
    clients = [build_client(5), build_client(15, seed=1)]
    apart = [evaluate(task, params, client).loss for client in clients]
    together = evaluate(task, params, pool(clients)).loss
    assert together == pytest.approx(0.25 * apart[0] + 0.75 * apart[1])


def test_threads_change_nothing(build_client, monkeypatch):
    """Bit for bit: sums are added in the order of the samples."""
    tasks = [Task(nn.Linear(3, 2)) for _ in range(3)]
    params = tasks[0].initial_params()
    monkeypatch.setattr(module, "CHUNK", 7)
    expected = evaluate(tasks[0], params, build_client(50))
    for count in (2, 3):
        evaluator = Evaluator([task.logits for task in tasks[:count]])
        for _ in range(3):
            assert evaluator.score(params, [build_client(50)]) == expected


def test_the_number_of_threads_is_given_back(build_client, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 7)
    tasks = [Task(nn.Linear(3, 2)) for _ in range(2)]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        evaluator = Evaluator([task.logits for task in tasks])
        evaluator.score(tasks[0].initial_params(), [build_client(50)])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_loss_is_the_cross_entropy(build_client):
    task = Task(nn.Linear(3, 2))
    params = {name: 100 * value for name, value in task.initial_params().items()}
    data = build_client(50)
    expected = nn.functional.cross_entropy(task.logits(params, data.x), data.y)
    assert evaluate(task, params, data).loss == pytest.approx(float(expected), rel=1e-5)


def test_one_client_after_another_is_the_same_as_all_in_one_piece(build_client):
    task = Task(nn.Linear(3, 2))
    params = task.initial_params()
    clients = [build_client(5), build_client(15, seed=1)]
    apart = Evaluator([task.logits]).score(params, iter(clients))
    together = evaluate(task, params, pool(clients))
    assert apart.loss == pytest.approx(together.loss)
    assert apart.accuracy == together.accuracy


@pytest.mark.parametrize("count", [1, 7, 33])
def test_drawing_from_clients_is_drawing_from_their_pool(build_client, count):
    clients = {n: build_client(size, seed=n) for n, size in enumerate((4, 1, 9, 20))}
    (pieces,) = draw(clients, count, stream(0, "evaluate", "train"))
    places = stream(0, "evaluate", "train").choice(34, size=count, replace=False)
    x, y = pool(clients.values()).take(torch.from_numpy(np.sort(places)))
    assert pieces.x.equal(x)
    assert pieces.y.equal(y)


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
    whole = Measure(federation, 0, CPU, threads=2, split=False)
    expected = evaluate(federation.task, params, pool(clients.values()))
    assert whole.train(params).loss == pytest.approx(expected.loss)
    on_test = evaluate(federation.task, params, held_out)
    assert whole.test(params).loss == pytest.approx(on_test.loss)
    few, again = (Measure(federation, 10, CPU, threads=1, split=False) for _ in range(2))
    assert few.train(params) == again.train(params)
    hits = few.train(params).accuracy * 10
    assert hits == pytest.approx(round(hits))


def test_without_held_out_data_there_is_no_score_on_them(clients):
    federation = federation_from_model(FederatedDataset(clients, None, 2), "logistic", 0)
    assert Measure(federation, 0, CPU, threads=1, split=False).test(federation.initial) is None


def test_slow_and_worst_by_hand():
    """Twelve clients: the worst tenth are two, and slow ones count by their samples."""
    scores = {n: (n, 12) for n in range(10)} | {10: (30.0, 40), 11: (1.0, 2)}
    slow, worst = slow_and_worst(scores, {2, 10})
    assert slow == (2 + 30) / (12 + 40)
    assert worst == (0 / 12 + 1 / 12) / 2
    assert slow_and_worst(scores, set())[0] is None
    assert slow_and_worst({3: (1.0, 4)}, {3}) == (0.25, 0.25)


@pytest.mark.parametrize("lazily", [False, True])
def test_clients_are_judged_by_their_own_samples(clients, lazily):
    known = clients
    if lazily:
        known = LazyClients([len(data) for data in clients.values()], clients.__getitem__)
    federation = federation_from_model(FederatedDataset(known, None, 2), "logistic", 0)
    found = Measure(federation, 0, CPU, threads=2, split=False).by_client(federation.initial)
    assert {client: count for client, (_, count) in found.items()} == {0: 30, 1: 31, 2: 32}
    for client, (right, count) in found.items():
        expected = evaluate(federation.task, federation.initial, clients[client]).accuracy
        assert right / count == pytest.approx(expected)


def test_of_many_samples_some_clients_are_judged_by_some_of_theirs(build_client, monkeypatch):
    monkeypatch.setattr(module, "PER_CLIENT", 5)
    clients = {n: build_client(2 if n % 2 else 9, seed=n) for n in range(40)}
    federation = federation_from_model(FederatedDataset(clients, None, 2), "logistic", 0)
    few, again = (
        Measure(federation, 30, CPU, threads=1, split=False).by_client(federation.initial)
        for _ in range(2)
    )
    assert few == again
    counts = {client: count for client, (_, count) in few.items()}
    assert counts == {client: 2 if client % 2 else 5 for client in counts}
    assert 30 <= sum(counts.values()) < 35
    alone, _ = next(iter(few.values()))
    assert alone == round(alone)


@pytest.mark.parametrize("size", [2, 21])
def test_held_out_data_are_halved_for_a_choice(clients, size, build_client):
    held_out = build_client(size, seed=9)
    federation = federation_from_model(FederatedDataset(clients, held_out, 2), "logistic", 0)
    order = stream(0, "evaluate", "halves").permutation(size)
    parts = {"validation": order[: size // 2], "test": order[size // 2 :]}
    measure = Measure(federation, 0, CPU, threads=1, split=True)
    for name, part in parts.items():
        rows = ClientData(held_out.x[np.sort(part)], held_out.y[np.sort(part)])
        expected = evaluate(federation.task, federation.initial, rows)
        assert measure.test(federation.initial, name) == expected
    whole = Measure(federation, 0, CPU, threads=1, split=False)
    assert whole.test(federation.initial, "validation") is None
