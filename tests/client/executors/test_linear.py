import threading

import pytest
import torch
from torch import nn

from fedcore.client.executors import linear
from fedcore.client.executors.linear import LinearExecutor
from fedcore.models.logistic import LinearClassifier
from fedcore.task import Task
from fedcore.types import (
    Assignment,
    CoresetSpec,
    LocalPlan,
    Phase,
    TrainingSettings,
    Way,
)


def test_it_fits_models_of_one_linear_layer_with_a_bias():
    assert linear.one_layer_of(Task(LinearClassifier(3, 2)))
    assert linear.one_layer_of(Task(nn.Linear(3, 2)))
    assert not linear.one_layer_of(Task(nn.Linear(3, 2, bias=False)))
    assert not linear.one_layer_of(Task(nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2))))


def test_without_numba_it_fits_nothing(monkeypatch):
    monkeypatch.setattr(linear, "have_numba", lambda: False)
    assert not linear.one_layer_of(Task(nn.Linear(3, 2)))


def test_threads_change_nothing(build_client):
    clients = {number: build_client(20 + number, seed=number) for number in range(5)}
    task = Task(LinearClassifier(3, 2))
    start = task.initial_params()
    plan = LocalPlan((Phase(3),), Way.FULL)
    assignments = [Assignment(client, plan, 0, 0) for client in clients]
    answers = [
        LinearExecutor(task, clients, TrainingSettings(0.1, 4), threads=threads).run(
            start, assignments
        )
        for threads in (1, 3)
    ]
    for one, three in zip(*answers, strict=True):
        assert one.client_id == three.client_id
        assert all(torch.equal(one.params[name], three.params[name]) for name in start)


def test_coresets_are_the_same_chosen_ahead_or_not_on_any_number_of_threads(build_client):
    sizes = (30, 90, 60, 45)
    clients = {number: build_client(size, seed=number) for number, size in enumerate(sizes)}
    task = Task(LinearClassifier(3, 2))
    start = task.initial_params()
    full = LocalPlan((Phase(3),), Way.FULL)
    slow = LocalPlan((Phase(1), Phase(2, CoresetSpec(7, "kmedoids", "input"))), Way.CORESET)
    assignments = [Assignment(k, slow if k else full, 0, 0) for k in clients]
    answers = []
    for threads in (1, 2, 3):
        for ahead in ([], assignments, assignments[2:]):
            executor = LinearExecutor(task, clients, TrainingSettings(0.1, 4), threads=threads)
            executor.expect(ahead)
            answers += [executor.run(start, assignments), executor.run(start, assignments)]
    for answer in answers[1:]:
        for one, other in zip(answers[0], answer, strict=True):
            assert (one.client_id, one.coreset_size) == (other.client_id, other.coreset_size)
            assert one.gradient_error == other.gradient_error
            assert all(torch.equal(one.params[name], other.params[name]) for name in start)


def test_gradient_proxies_go_through_the_plain_loop(build_client):
    task = Task(LinearClassifier(3, 2))
    start = task.initial_params()
    plan = LocalPlan((Phase(1), Phase(2, CoresetSpec(4, "kmedoids", "logits"))), Way.CORESET)
    executor = LinearExecutor(task, {0: build_client(20)}, TrainingSettings(0.1, 4))
    update = executor.run(start, [Assignment(0, plan, 0, 0)])[0]
    assert not torch.equal(update.params["linear.weight"], start["linear.weight"])


@pytest.mark.parametrize("sigmoid", [False, True])
def test_a_diverging_model_shows_it(build_client, sigmoid):
    """NaN is not optimised away: the server sees it and leaves the answer out."""
    task = Task(LinearClassifier(3, 2, sigmoid=sigmoid))
    start = {n: torch.full_like(v, float("nan")) for n, v in task.initial_params().items()}
    executor = LinearExecutor(task, {0: build_client(8)}, TrainingSettings(0.1, 4))
    plan = LocalPlan((Phase(1),), Way.FULL)
    update = executor.run(start, [Assignment(0, plan, 0, 0)])[0]
    assert torch.isnan(update.params["linear.weight"]).all()


def test_it_fits_nothing_that_only_looks_like_one_linear_layer():
    class Own(nn.Linear):
        pass

    hooked = nn.Linear(3, 2)
    hooked.register_forward_hook(lambda module, entered, output: 2 * output)
    frozen = nn.Linear(3, 2)
    frozen.bias.requires_grad_(False)
    computed = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    for model in (Own(3, 2), hooked, frozen, computed, nn.Linear(3, 2).double()):
        assert not linear.one_layer_of(Task(model))


def test_an_error_does_not_wait_for_the_clients_behind_it(build_client, monkeypatch):
    """Who has not begun never does; the others are left to themselves."""
    gate, trained = threading.Event(), []
    train = LinearExecutor._train

    def held(self, params, assignments):
        if assignments[0].client_id == 0:
            raise KeyboardInterrupt
        gate.wait(5)
        trained.append(assignments[0].client_id)
        return train(self, params, assignments)

    monkeypatch.setattr(LinearExecutor, "_train", held)
    clients = {number: build_client(40 - number, seed=number) for number in range(12)}
    task = Task(LinearClassifier(3, 2))
    plan = LocalPlan((Phase(1),), Way.FULL)
    assignments = [Assignment(client, plan, 0, 0) for client in clients]
    executor = LinearExecutor(task, clients, TrainingSettings(0.1, 4), threads=2)
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        executor.run(task.initial_params(), assignments)
    assert not trained
    executor.close()
    gate.set()
    for worker in set(threading.enumerate()) - before:
        worker.join(20)
    assert len(trained) <= 2
