"""Equality with the plain loop is the executor contract's business."""

import threading

import pytest
import torch
from torch import nn

from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.client.executors.steps import Steps
from fedcore.client.executors.vectorised import VectorisedExecutor
from fedcore.server.loop import is_sound
from fedcore.stacked import affine
from fedcore.task import Task
from fedcore.types import (
    Assignment,
    ClientData,
    CoresetSpec,
    LocalPlan,
    Phase,
    TrainingSettings,
    Way,
)


def test_answers_come_in_the_order_of_the_questions_and_others_move_up(build_client, monkeypatch):
    coefficients = []
    run = Steps.run

    def noted(self, tape, watch):
        coefficients.append(tape.coefficient)
        return run(self, tape, watch)

    monkeypatch.setattr(Steps, "run", noted)
    sizes = (4, 40, 8, 80)
    clients = {k: build_client(size, seed=k) for k, size in enumerate(sizes)}
    task = Task(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    plan = LocalPlan((Phase(2),), Way.FULL)
    assignments = [Assignment(k, plan, 0, 0) for k in clients]
    executor = VectorisedExecutor(task, clients, TrainingSettings(0.1, 4), block=100)
    updates = executor.run(task.initial_params(), assignments)
    assert [update.client_id for update in updates] == [0, 1, 2, 3]
    assert [update.num_samples for update in updates] == list(sizes)
    # Steps are 2, 20, 4 and 40: nobody waits for the longest in a slot of its own.
    assert sum(int((part > 0).sum()) for part in coefficients) == 66 * 4
    assert sum(part.numel() for part in coefficients) < 66 * 4 / 0.8


def test_a_plan_without_training_gives_back_the_model(build_client):
    task = Task(nn.Linear(3, 2))
    start = task.initial_params()
    plan = LocalPlan((Phase(1, forward_price=0.3),), Way.FORWARD_CORESET)
    executor = VectorisedExecutor(task, {0: build_client()}, TrainingSettings(0.1, 4), block=100)
    (update,) = executor.run(start, [Assignment(0, plan, 0, 0)])
    assert all(torch.equal(update.params[n], start[n]) for n in start)


def test_the_error_on_the_whole_gradient_is_measured_where_asked_for(build_client):
    task = Task(nn.Linear(3, 2))
    clients = {0: build_client(20)}
    spec = CoresetSpec(4, "kcenter", "logits")
    plan = LocalPlan((Phase(1), Phase(2, spec)), Way.CORESET)
    settings = TrainingSettings(0.1, 4, measure_full_gradient=True)
    errors = [
        kind(task, clients, settings).run(task.initial_params(), [Assignment(0, plan, 0, 0)])
        for kind in (SequentialExecutor, VectorisedExecutor)
    ]
    one, other = (updates[0].full_gradient_error for updates in errors)
    assert abs(one - other) < 1e-5


def test_affine():
    z, weight, bias = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5)
    expected = torch.stack([z[k] @ weight[k].T + bias[k] for k in range(2)])
    assert torch.allclose(affine(z, weight, bias), expected, atol=1e-6)


def test_who_rests_is_not_touched_by_what_overflows_beside_it(build_client):
    """A client whose coreset is being chosen takes steps of nothing, on samples of its own."""
    missing = ClientData(torch.full((400, 3), 3.4e38), torch.zeros(400, dtype=torch.int64))
    clients = {0: missing, 1: build_client(40)}
    task = Task(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)))
    for value in task.model.parameters():
        nn.init.ones_(value)  # so that it does overflow, whatever was drawn before
    chosen = LocalPlan((Phase(1), Phase(3, CoresetSpec(6, "kcenter", "logits"))), Way.CORESET)
    plans = [LocalPlan((Phase(4),), Way.FULL), chosen]
    assignments = [Assignment(client, plan, 0, 0) for client, plan in enumerate(plans)]
    for kind in (SequentialExecutor, VectorisedExecutor):
        executor = kind(task, clients, TrainingSettings(0.1, 4))
        updates = executor.run(task.initial_params(), assignments)
        assert [is_sound(update) for update in updates] == [False, True]


def test_an_error_drops_the_blocks_behind_it_and_closing_ends_the_threads(
    build_client, monkeypatch
):
    gate, trained = threading.Event(), []
    train = VectorisedExecutor._train

    def held(self, params, assignments):
        if assignments[0].client_id == 0:
            raise KeyboardInterrupt
        gate.wait(5)
        trained.append(assignments[0].client_id)
        return train(self, params, assignments)

    monkeypatch.setattr(VectorisedExecutor, "_train", held)
    clients = {k: build_client(60 - 4 * k, seed=k) for k in range(12)}
    task = Task(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    assignments = [Assignment(k, LocalPlan((Phase(2),), Way.FULL), 1, 0) for k in clients]
    executor = VectorisedExecutor(task, clients, TrainingSettings(0.1, 4), block=1, threads=2)
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        executor.run(task.initial_params(), assignments)
    assert not trained
    executor.close()
    gate.set()
    for worker in set(threading.enumerate()) - before:
        worker.join(20)
        assert not worker.is_alive()
    assert len(trained) <= 2
