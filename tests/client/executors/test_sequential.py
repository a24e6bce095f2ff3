import numpy as np
import pytest
import torch
from torch import nn

from fedcore.client.coresets import Coresets
from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.client.schedule import Samples, schedule
from fedcore.seeding import stream
from fedcore.task import Task
from fedcore.types import (
    Assignment,
    CoresetSpec,
    LocalPlan,
    Phase,
    TrainingSettings,
    Way,
)


def a_network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2))


def run(plan, client, model=None):
    task = Task(model or a_network())
    executor = SequentialExecutor(task, {7: client}, TrainingSettings(0.1, 4))
    start = task.initial_params()
    return start, executor.run(start, [Assignment(7, plan, 2, seed=11)])[0]


def test_full_epochs_are_torch_sgd_on_the_scheduled_batches(build_client):
    client = build_client(10)
    _, update = run(LocalPlan((Phase(2),), Way.FULL), client)
    model = a_network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    tape = schedule(Samples.everything(10), 2, 4, stream(11, "shuffle", 3, 7, 0))
    for index, coefficient in zip(tape.index, tape.coefficient, strict=True):
        chosen = torch.from_numpy(index[coefficient > 0])
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(client.x[chosen]), client.y[chosen]).backward()
        optimiser.step()
    for name, value in model.named_parameters():
        assert torch.allclose(update.params[name], value, atol=1e-6)


def test_the_coreset_of_a_network_comes_from_gradients_of_its_first_epoch(
    build_client, monkeypatch
):
    client = build_client(20)
    seen = {}
    build = Coresets.begin

    def spy(self, assignment, phase, watched=None):
        seen[phase] = watched
        return build(self, assignment, phase, watched)

    monkeypatch.setattr(Coresets, "begin", spy)
    spec = CoresetSpec(5, "kmedoids", "last-layer-input")
    run(LocalPlan((Phase(1), Phase(2, spec)), Way.CORESET), client)
    assert seen[0] is None
    assert seen[1].gradients.residuals.shape == (20, 2)
    assert seen[1].gradients.inputs.shape == (20, 6)


def test_collected_gradients_stand_in_the_order_of_the_samples(build_client, monkeypatch):
    """At learning rate 0 the model stands still, so every row can be computed afresh."""
    client = build_client(9)
    kept = {}
    build = Coresets.begin

    def spy(self, assignment, phase, watched=None):
        kept[phase] = watched
        return build(self, assignment, phase, watched)

    monkeypatch.setattr(Coresets, "begin", spy)
    task = Task(a_network())
    executor = SequentialExecutor(task, {7: client}, TrainingSettings(0.0, 4))
    params = task.initial_params()
    plan = LocalPlan((Phase(1), Phase(1, CoresetSpec(3, "uniform", "logits"))), Way.CORESET)
    executor.run(params, [Assignment(7, plan, 0, 0)])
    probabilities = torch.softmax(task.logits(params, client.x), dim=1)
    residuals = probabilities - nn.functional.one_hot(client.y, 2)
    assert torch.allclose(kept[1].gradients.residuals, residuals, atol=1e-6)
    losses = nn.functional.cross_entropy(task.logits(params, client.x), client.y, reduction="none")
    assert torch.allclose(kept[1].gradients.losses, losses, atol=1e-6)


def test_passes_are_those_of_the_paper(build_client):
    """One epoch on 20 samples in batches of 4, then 3 on 6: 5 + 3·2 forward passes, no more."""
    model = a_network()
    batches = []
    model.register_forward_hook(lambda _, inputs, __: batches.append(len(inputs[0])))
    spec = CoresetSpec(6, "kmedoids", "last-layer-input")
    plan = LocalPlan((Phase(1), Phase(3, spec)), Way.CORESET)
    run(plan, build_client(20), model)
    assert len(batches) == 5 + 3 * 2
    assert sum(batches) == plan.work(20) == 20 + 3 * 6


def test_the_proximal_anchor_is_the_global_model_in_every_phase(build_client):
    """With a huge pull and a tiny step, the model hardly leaves where the round began."""
    client = build_client(12)
    spec = CoresetSpec(4, "kmedoids", "input")
    phases = (Phase(1), Phase(40, spec))
    _, free = run(LocalPlan(phases, Way.CORESET), client)
    start, held = run(LocalPlan(phases, Way.CORESET, prox_mu=5.0), client)
    distance = {
        label: sum(float((update.params[n] - start[n]).norm()) for n in start)
        for label, update in (("free", free), ("held", held))
    }
    assert distance["held"] < 0.2 * distance["free"]


def test_a_step_scale_is_a_larger_learning_rate(build_client):
    """Without a proximal term; and coresets are chosen by gradients that it does not touch."""
    client, task = build_client(20), Task(a_network())
    start = task.initial_params()
    phases = (Phase(1), Phase(2, CoresetSpec(5, "kmedoids", "last-layer-input")))

    def trained(learning_rate, scale):
        settings = TrainingSettings(learning_rate, 4)
        plan = LocalPlan(phases, Way.CORESET, step_scale=scale)
        executor = SequentialExecutor(task, {7: client}, settings)
        return executor.run(start, [Assignment(7, plan, 0, 0)])[0]

    # Powers of two, so that both round alike: among ties the last bit may choose the medoid.
    scaled, faster = trained(0.0625, 2.0), trained(0.125, 1.0)
    assert scaled.gradient_error == faster.gradient_error
    for name in start:
        assert torch.equal(scaled.params[name], faster.params[name])


def test_an_answer_carries_no_data(build_client):
    _, update = run(LocalPlan((Phase(1),), Way.FULL), build_client(8))
    numbers = {name: getattr(update, name) for name in update.__slots__ if name != "params"}
    assert all(value is None or np.isscalar(value) for value in numbers.values())
    start = a_network().state_dict()
    assert {n: v.shape for n, v in update.params.items()} == {n: v.shape for n, v in start.items()}


def test_a_forward_phase_trains_nothing_and_yields_the_gradients_of_a_coreset(build_client):
    """Section 4.4 b): forward on 20 samples, backward through the last layer alone."""
    model = a_network()
    forward, differentiated = [], []
    model.register_forward_hook(lambda _, inputs, __: forward.append(len(inputs[0])))
    model[0].register_forward_hook(lambda _, __, out: differentiated.append(out.requires_grad))
    spec = CoresetSpec(6, "kmedoids", "last-layer-input")
    plan = LocalPlan((Phase(1, forward_price=0.5), Phase(3, spec)), Way.FORWARD_CORESET)
    _, update = run(plan, build_client(20), model)
    assert sum(forward) == 20 + 3 * 6
    # The one chunk of the look ends at the last layer; the 6 steps on the coreset do not.
    assert differentiated == [False] + [True] * 6
    assert plan.work(20) == 10 + 18
    assert update.coreset_size == 6


def test_a_random_subset_is_another_one_every_round(build_client):
    task = Task(a_network())
    executor = SequentialExecutor(task, {7: build_client(30)}, TrainingSettings(0.1, 4))
    start = task.initial_params()
    plan = LocalPlan((Phase(1, CoresetSpec(5, "uniform-plain", "none")),), Way.RANDOM_SUBSET)
    first, second = (
        executor.run(start, [Assignment(7, plan, number - 1, seed=11)])[0] for number in (1, 2)
    )
    assert first.coreset_size == 5
    assert not torch.allclose(first.params["0.weight"], second.params["0.weight"])


@pytest.mark.parametrize("proxy", ["input", "logits", "last-layer-input", "last-layer"])
def test_the_error_of_a_coreset_is_reported_and_on_request_that_of_the_model(build_client, proxy):
    task = Task(a_network())
    plan = LocalPlan((Phase(1), Phase(1, CoresetSpec(8, "kmedoids", proxy))), Way.CORESET)
    errors = []
    for measure in (False, True):
        settings = TrainingSettings(0.1, 4, measure_full_gradient=measure)
        executor = SequentialExecutor(task, {7: build_client(24)}, settings)
        update = executor.run(task.initial_params(), [Assignment(7, plan, 0, seed=1)])[0]
        assert 0 < update.gradient_error < 1
        errors.append(update.full_gradient_error)
    assert errors[0] is None
    assert errors[1] > 0


def test_a_selector_that_goes_by_losses_gets_those_of_the_first_epoch(build_client):
    plan = LocalPlan((Phase(1), Phase(1, CoresetSpec(4, "loss-topk", "input"))), Way.CORESET)
    _, update = run(plan, build_client(12))
    assert update.coreset_size == 4
