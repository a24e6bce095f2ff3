import threading

import pytest
import torch
from torch import nn
from torch.nn import functional

from fedcore.client.executors import linear
from fedcore.client.executors.linear import LinearExecutor
from fedcore.models.logistic import LinearClassifier
from fedcore.task import Task
from fedcore.types import (
    Assignment,
    ClientData,
    CoresetSpec,
    LocalPlan,
    Phase,
    TrainingSettings,
    Way,
    Weighting,
)


class Perceptron(nn.Module):
    """As people write them; ``said`` is what else its forward pass does."""

    def __init__(self, said=lambda x: x):
        super().__init__()
        self.first, self.second = nn.Linear(6, 4), nn.Linear(4, 2, bias=False)
        self.said, self.rest = said, nn.Dropout(0.0)

    def forward(self, x):
        x = functional.relu(self.first(x.view(x.size(0), -1)))
        return self.second(self.rest(self.said(x)))


def chain_of(model, *shape):
    x = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    found = linear.chain_of(Task(model), {0: ClientData(x, torch.zeros(3, dtype=torch.int64))})
    return None if found is None else found.tolist()


# Inputs, outputs, biases, kind (0 leaky, 1 tanh, 2 sigmoid, 3 SiLU, 4 GELU), share of negatives
@pytest.mark.parametrize(
    ("model", "shape", "rows"),
    [
        (nn.Linear(3, 2), (3,), [[3, 2, 2, 0, 1]]),
        (nn.Linear(3, 2, bias=False), (3,), [[3, 2, 0, 0, 1]]),
        (LinearClassifier(6, 2), (2, 3), [[6, 2, 2, 0, 1]]),
        (LinearClassifier(3, 2, sigmoid=True), (3,), [[3, 2, 2, 2, 1]]),
        (Perceptron(), (2, 3), [[6, 4, 4, 0, 0], [4, 2, 0, 0, 1]]),
        (Perceptron(torch.tanh), (6,), None),  # two activations behind one layer
        (
            nn.Sequential(
                *(nn.Flatten(), nn.Linear(6, 5), nn.LeakyReLU(0.5, inplace=True), nn.Identity()),
                nn.Sequential(nn.Linear(5, 4), nn.GELU(), nn.Linear(4, 3), nn.SiLU()),
                *(nn.Linear(3, 3), nn.Linear(3, 2), nn.Tanh()),
            ),
            (2, 3),
            [[6, 5, 5, 0, 0.5], [5, 4, 4, 4, 1], [4, 3, 3, 3, 1], [3, 3, 3, 0, 1], [3, 2, 2, 1, 1]],
        ),
    ],
)
def test_a_chain_is_known_by_what_it_calls(model, shape, rows):
    assert chain_of(model, *shape) == rows


def test_without_numba_it_fits_nothing(monkeypatch):
    monkeypatch.setattr(linear, "have_numba", lambda: False)
    assert chain_of(nn.Linear(3, 2), 3) is None


@pytest.mark.parametrize("depth", [1, 2])
def test_threads_change_nothing(build_client, depth):
    clients = {number: build_client(20 + number, seed=number) for number in range(5)}
    network = nn.Sequential(nn.Linear(3, 9), nn.ReLU(), nn.Linear(9, 2))
    task = Task(LinearClassifier(3, 2) if depth == 1 else network)
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


def test_it_is_compiled_once_whatever_it_is_given(build_client):
    from fedcore.client.executors.linear_kernel import train_chain

    before = len(train_chain.signatures)
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    drawn = CoresetSpec(4, "kmedoids", "logits", weighting=Weighting.PROPORTIONAL)
    for model in (nn.Linear(3, 2, bias=False), network):
        task, data = Task(model), build_client(20)
        start = task.initial_params()
        columns = ClientData(data.x.T.contiguous().T, data.y.int())
        last = Phase(1, drawn) if model is network else Phase(1)
        for how, client in (({}, data), ({"momentum": 1, "clip_norm": 2}, columns)):
            executor = LinearExecutor(task, {0: client}, TrainingSettings(1, 4, **how))
            plan = LocalPlan((Phase(1), last), Way.FULL, prox_mu=1, step_scale=2)
            asked = [Assignment(0, plan, 0, 0), Assignment(0, plan, 0, 0, shift=start)]
            executor.run(start, asked)
    assert len(train_chain.signatures) <= max(before, 1)


BY_GRADIENTS = LocalPlan((Phase(1), Phase(2, CoresetSpec(4, "kmedoids", "logits"))), Way.CORESET)


@pytest.mark.parametrize(
    ("model", "head", "how", "plainly"),
    [
        (nn.Linear(3, 2), None, {}, True),  # whose published results keep their last digit
        (nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), None, {}, False),
        (nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), "0", {}, True),
        (nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)), None, {"adam": True}, True),
        (
            nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)),
            None,
            {"measure_full_gradient": True},
            False,
        ),
    ],
)
def test_who_goes_through_the_plain_loop(build_client, monkeypatch, model, head, how, plainly):
    task, calls = Task(model, head), []
    train = linear.train_plainly
    monkeypatch.setattr(linear, "train_plainly", lambda *of: (calls.append(1), train(*of))[1])
    executor = LinearExecutor(task, {0: build_client(20)}, TrainingSettings(0.1, 4, **how))
    start = task.initial_params()
    update = executor.run(start, [Assignment(0, BY_GRADIENTS, 0, 0)])[0]
    assert bool(calls) == plainly
    assert update.coreset_size == 4
    assert (update.full_gradient_error is not None) == ("measure_full_gradient" in how)
    assert all(not torch.equal(update.params[name], start[name]) for name in start)


@pytest.mark.parametrize(
    "model",
    [
        LinearClassifier(3, 2),
        LinearClassifier(3, 2, sigmoid=True),
        *(
            nn.Sequential(nn.Linear(3, 4), kind(), nn.Linear(4, 2))
            for kind in (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.SiLU, nn.GELU, nn.LeakyReLU)
        ),
    ],
)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_diverging_model_shows_it(build_client, model, momentum):
    """NaN is not optimised away: the server sees it and leaves the answer out."""
    task = Task(model)
    start = {n: torch.full_like(v, float("nan")) for n, v in task.initial_params().items()}
    settings = TrainingSettings(0.1, 4, momentum=momentum)
    executor = LinearExecutor(task, {0: build_client(8)}, settings)
    plan = LocalPlan((Phase(1),), Way.FULL)
    update = executor.run(start, [Assignment(0, plan, 0, 0)])[0]
    assert all(bool(torch.isnan(value).all()) for value in update.params.values())


class Twice(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Tied(Perceptron):
    def forward(self, x):
        hidden = functional.relu(self.first(x))
        return functional.linear(hidden, self.second.weight) + functional.linear(
            x, self.first.weight
        )


def changed(model, change):
    change(model)
    return model


def hook(module, entered, output):
    """Looks only, and would not be called."""


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (Twice(6, 2), (6,)),
        (changed(nn.Linear(6, 2), lambda model: model.register_forward_hook(hook)), (6,)),
        (changed(nn.Linear(6, 2), lambda model: model.bias.requires_grad_(False)), (6,)),
        (nn.utils.parametrizations.weight_norm(nn.Linear(6, 2)), (6,)),
        (nn.Linear(6, 2).double(), (6,)),
        (Tied(), (6,)),
        (changed(Perceptron(), lambda model: setattr(model, "spare", nn.Linear(2, 2))), (6,)),
        (changed(Perceptron(), lambda model: setattr(model, "rest", nn.Dropout(0.1))), (6,)),
        (Perceptron(lambda x: x - x.mean(0)), (6,)),  # samples see each other
        (Perceptron(lambda x: x if x.sum() > 0 else -x), (6,)),  # values decide
        (Perceptron(lambda x: x if x.tolist() else -x), (6,)),
        (Perceptron(lambda x: x.view(4, -1).view(-1, 4)), (6,)),  # rows are no samples on the way
        (Perceptron(lambda x: x + torch.zeros(4)), (6,)),
        (Perceptron(lambda x: torch.rand(3, 4)), (6,)),
        (Perceptron(lambda x: x.T.T), (6,)),
        (nn.Sequential(nn.Linear(6, 4), nn.GELU("tanh"), nn.Linear(4, 2)), (6,)),
        (nn.Sequential(nn.ReLU(), nn.Linear(6, 2)), (6,)),
        (nn.Sequential(nn.Linear(3, 2), nn.Flatten(), nn.Linear(4, 2)), (2, 3)),
        (nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Linear(4, 2)), (6,)),
        (nn.Sequential(nn.Linear(6, 4), nn.Softmax(1)), (6,)),
        (nn.Sequential(nn.Conv1d(1, 1, 1), nn.Flatten(), nn.Linear(6, 2)), (1, 6)),
        (nn.Linear(5, 2), (6,)),  # which cannot be called
    ],
)
def test_it_fits_nothing_that_only_looks_like_a_chain(model, shape):
    assert chain_of(model, *shape) is None


def test_layers_in_another_order_than_their_parameters_are_no_chain():
    """Part of a model is trained by that order."""
    model = nn.Sequential()
    model.second, model.first = nn.Linear(4, 2), nn.Linear(6, 4)
    model.forward = lambda x: model.second(model.first(x))
    assert chain_of(model, 6) is None


def test_a_look_at_a_model_leaves_it_and_random_numbers_alone():
    model = changed(Perceptron(), lambda model: setattr(model, "rest", nn.Dropout(0.5)))
    before, weight = torch.get_rng_state(), model.first.weight
    chain_of(model, 6)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.first.weight is weight


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


def test_a_client_with_more_columns_than_the_model_takes_is_refused_not_cut():
    """As may come of clients that are loaded one by one."""
    y = torch.zeros(4, dtype=torch.int64)
    clients = {number: ClientData(torch.ones(4, 3 + number), y) for number in range(2)}
    task = Task(LinearClassifier(3, 2))
    executor = LinearExecutor(task, clients, TrainingSettings(0.1, 4))
    told = Assignment(1, LocalPlan((Phase(1),), Way.FULL), 0, 0)
    with pytest.raises(RuntimeError, match="4x4 and 3x2"):  # of which ``simulate`` makes a sentence
        executor.run(task.initial_params(), [told])
