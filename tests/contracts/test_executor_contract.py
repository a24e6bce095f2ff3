"""Every executor gives what the plain loop gives, for every strategy, over several rounds.

Coresets are those of the default selector, also where they go by gradients, which differ in their
last bits from executor to executor: k-medoids looks at points in an order that these do not change.

The CNN is trained in float64: among the millions of units of three rounds one comes within
float32 rounding of ReLU's kink, or two of a tie in a max-pool, and a gradient jumps there.
"""

import copy
import dataclasses
import functools

import pytest
import torch

from fedcore.client.executors.by_name import choose_executor
from fedcore.client.executors.linear import LinearExecutor
from fedcore.client.executors.vectorised import VectorisedExecutor
from fedcore.config import Experiment
from fedcore.coreset.proxies import PROXIES
from fedcore.errors import BadOption
from fedcore.records import RunKey
from fedcore.sim import world
from fedcore.sim.federation import federate, federation_from_model
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.task import Task
from fedcore.types import (
    Assignment,
    ClientData,
    CoresetSpec,
    FederatedDataset,
    LocalPlan,
    Phase,
    TrainingSettings,
    Way,
)

EXECUTORS = {
    "logistic": ["compiled", "vectorised"],
    "logistic-sigmoid": ["compiled", "vectorised"],
    "perceptron": ["compiled", "vectorised"],
    "cnn": ["vectorised"],
    "char-lstm": ["vectorised"],
}
SIZES = {"cnn": (3, 11, 20, 60), "char-lstm": (3, 11, 20, 60)}
SMALL = Experiment(
    rounds=3, epochs=4, clients_per_round=4, learning_rate=0.1, batch_size=8, prox_mu=0.3
)


# What an executor sees are plans and shifts; all other strategies have those of one of these, and
# tests/contracts/test_resume_contract.py trains with every one.
KINDS_OF_PLANS = [
    *("fedavg", "fedavg-ds", "fedprox", "fedcore", "fedcore-buff", "scaffold", "feddyn"),
    *("timelyfl", "fedbalancer", "importance", "random-epochs"),
]


def final(federation, strategy, executor, **options):
    experiment = dataclasses.replace(SMALL, executor=executor, **options)
    there = len(federation.dataset.clients)
    method = build_strategy(strategy, experiment, federation.proxy, there)
    run = RunKey("test", strategy, 40.0, 0)
    *_, (record, state) = simulate_rounds(build_world(federation, experiment, run, method))
    return record, {name: value.cpu() for name, value in state.params.items()}


@functools.cache
def federation_for(model):
    """Sizes that leave partial batches, one client below a batch, one that never fits a pass."""

    def a_client(size, seed):
        draw = torch.Generator().manual_seed(seed)
        if model == "cnn":
            x = torch.randn(size, 1, 8, 8, generator=draw).double()
        elif model == "char-lstm":
            x = torch.randint(3, (size, 4), generator=draw)
        else:
            x = torch.randn(size, 5, generator=draw)
        return ClientData(x, torch.randint(3, (size,), generator=draw))

    sizes = SIZES.get(model, (3, 17, 40, 90, 400))
    clients = {number: a_client(size, number) for number, size in enumerate(sizes)}
    dataset = FederatedDataset(clients, a_client(30, 99), 3)
    if model == "perceptron":
        return federate(dataset, perceptron(5, 3))
    federation = federation_from_model(dataset, model, 1)
    return federate(dataset, federation.task.model.double()) if model == "cnn" else federation


def perceptron(features, classes):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        hidden = torch.nn.Linear(features, 8), torch.nn.Tanh(), torch.nn.Linear(8, 7, bias=False)
        return torch.nn.Sequential(*hidden, torch.nn.GELU(), torch.nn.Linear(7, classes))


def in_float64(federation):
    return federate(federation.dataset, copy.deepcopy(federation.task.model).double())


@functools.cache
def plain(model, strategy, **options):
    return final(federation_for(model), strategy, "sequential", **options)


def assert_same(answer, expected):
    (record, params), (plain_record, plain_params) = answer, expected
    for name, value in plain_params.items():
        assert torch.allclose(params[name], value, atol=2e-5)
    for one, other in zip(record.clients, plain_record.clients, strict=True):
        assert dataclasses.replace(one, gradient_error=None) == dataclasses.replace(
            other, gradient_error=None
        )
        errors = [-1 if e is None else e for e in (one.gradient_error, other.gradient_error)]
        assert errors[0] == pytest.approx(errors[1], rel=1e-3, abs=1e-5)
    assert record.train_loss == pytest.approx(plain_record.train_loss, abs=1e-5)


@pytest.mark.parametrize("strategy", KINDS_OF_PLANS)
@pytest.mark.parametrize(
    ("model", "executor"), [(model, e) for model, all_of in EXECUTORS.items() for e in all_of]
)
def test_equal_to_the_plain_loop(model, executor, strategy):
    if model.startswith("logistic") and strategy == "timelyfl":
        pytest.skip("a model of one layer cannot be trained in part")
    if (model, strategy) == ("char-lstm", "fedcore-buff"):
        # Its windows are often equal: there, float32 rounds which of them stands for the others.
        federation = in_float64(federation_for(model))
        expected = final(federation, strategy, "sequential")
        assert_same(final(federation, strategy, executor), expected)
        return
    answer = final(federation_for(model), strategy, executor)
    assert_same(answer, plain(model, strategy))


@pytest.mark.parametrize("proxy", PROXIES)
@pytest.mark.parametrize("below", ["static-coreset", "forward", "random", "sit-out"])
@pytest.mark.parametrize(
    ("model", "executor"),
    [("logistic", "vectorised"), ("logistic", "compiled"), ("perceptron", "compiled")],
)
def test_equal_for_every_way_below_one_pass(model, executor, below, proxy):
    """Every kind of phase: watched epochs, coresets, forward passes, random subsets."""
    options = {"below_one_pass": below, "proxy": proxy}
    answer = final(federation_for(model), "fedcore", executor, **options)
    assert_same(answer, plain(model, "fedcore", **options))


@pytest.mark.parametrize("strategy", ["fedprox", "fedcore"])
@pytest.mark.parametrize(("block", "threads"), [(1, 1), (1, 2), (2, 2), (4, 1)])
@pytest.mark.parametrize("model", ["cnn", "char-lstm", "logistic"])
def test_blocks_and_threads_change_nothing(model, block, threads, strategy, monkeypatch):
    def choose(_, task, clients, settings, *, device, **__):
        return VectorisedExecutor(
            task, clients, settings, device=device, block=block, threads=threads
        )

    monkeypatch.setattr(world, "choose_executor", choose)
    answer = final(federation_for(model), strategy, "vectorised")
    assert_same(answer, plain(model, strategy))


@pytest.mark.parametrize("weighting", ["scaled", "normalised", "proportional"])
@pytest.mark.parametrize("executor", ["compiled", "vectorised"])
def test_equal_under_every_weighting(executor, weighting):
    answer = final(federation_for("logistic"), "fedcore", executor, weighting=weighting)
    assert_same(answer, plain("logistic", "fedcore", weighting=weighting))


@pytest.mark.parametrize("strategy", ["fedprox", "fedcore"])
@pytest.mark.parametrize(
    ("model", "executor"),
    [("logistic", "compiled"), ("perceptron", "compiled"), ("cnn", "vectorised")],
)
def test_equal_with_larger_steps_for_slow_clients(model, executor, strategy):
    options = {"catch_up": 4.0}
    answer = final(federation_for(model), strategy, executor, **options)
    expected = plain(model, strategy, **options)
    assert_same(answer, expected)
    unscaled = plain(model, strategy)[1]
    assert any(not torch.allclose(expected[1][n], unscaled[n], atol=1e-3) for n in unscaled)


HOW = {
    "momentum": {"momentum": 0.5, "weight_decay": 0.1, "clip_norm": 1.0},
    "adam": {"optimiser": "adam", "weight_decay": 0.1, "clip_norm": 1.0, "learning_rate": 0.01},
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    ("model", "executor", "strategy"),
    [
        ("logistic", "auto", "fedavg"),
        ("logistic", "auto", "fedcore"),
        ("perceptron", "auto", "fedcore"),
        ("cnn", "vectorised", "fedcore"),
        ("char-lstm", "vectorised", "fedprox"),
    ],
)
def test_equal_under_every_optimiser(model, executor, strategy, how):
    """Over rounds: each begins with an optimiser that remembers nothing.

    Networks in float64: Adam divides gradients by their size, and tiny ones show how they round.
    """
    federation = federation_for(model)
    if model == "char-lstm":
        federation = in_float64(federation)
    expected = final(federation, strategy, "sequential", **HOW[how])
    assert_same(final(federation, strategy, executor, **HOW[how]), expected)
    rate = HOW[how].get("learning_rate", SMALL.learning_rate)
    sgd = final(federation, strategy, "sequential", learning_rate=rate)[1]
    assert any(not torch.allclose(expected[1][n], sgd[n], atol=1e-3) for n in sgd)


@pytest.mark.parametrize(("model", "executor"), [("logistic", "compiled"), ("cnn", "vectorised")])
@pytest.mark.parametrize("schedule", ["step", "cosine", "inverse-time"])
def test_equal_under_every_schedule(model, executor, schedule):
    options = {"schedule": schedule, "schedule_every": 1}
    expected = plain(model, "fedavg", **options)
    assert_same(final(federation_for(model), "fedavg", executor, **options), expected)
    constant = plain(model, "fedavg")[1]
    assert any(not torch.allclose(expected[1][n], constant[n], atol=1e-3) for n in constant)


BY_INPUTS = CoresetSpec(5, "kmedoids", "input")
BY_GRADIENTS = CoresetSpec(6, "kmedoids", "logits")
PHASES = {
    "full": (Phase(3),),
    "coreset by inputs": (Phase(1), Phase(2, BY_INPUTS)),
    "coreset by gradients": (Phase(1), Phase(2, BY_GRADIENTS)),
    "coreset alone": (Phase(3, BY_INPUTS),),
    "forward pass first": (Phase(1, forward_price=0.3), Phase(3, BY_GRADIENTS)),
}
RULES = {
    "plain": {},
    "pull": {"prox_mu": 4.0},
    "scale": {"step_scale": 2.0},
    "shift": {"shift": True},
    "all": {"prox_mu": 4.0, "step_scale": 2.0, "shift": True},
}


def jobs(task, sizes, phases, rule):
    """A job per client; every other has the rule, so that one block holds both kinds."""
    found = []
    for client in range(len(sizes)):
        own = dict(rule) if client % 2 == 0 else {}
        shift = None
        if own.pop("shift", False):
            draw = torch.Generator().manual_seed(client)
            start = task.initial_params()
            shift = {n: 0.3 * torch.randn(v.shape, generator=draw) for n, v in start.items()}
        plan = LocalPlan(phases, Way.FULL, **own)
        found.append(Assignment(client, plan, base_version=4, seed=2, shift=shift))
    return found


def answers(kind, task, clients, assignments, **how):
    settings = TrainingSettings(0.05, 8, **how)
    if kind.startswith("vectorised"):
        block, threads = {"vectorised": (10, 1), "vectorised alone": (1, 2)}[kind]
        executor = VectorisedExecutor(task, clients, settings, block=block, threads=threads)
    elif kind == "compiled":
        executor = LinearExecutor(task, clients, settings, threads=2)
    else:
        executor = choose_executor(kind, task, clients, settings, threads=2)
    return executor.run(task.initial_params(), assignments)


KINDS = [
    *[(kind, "linear") for kind in ("compiled", "vectorised", "vectorised alone")],
    ("compiled", "perceptron"),
]


def task_of(model):
    torch.manual_seed(0)
    # Gradients of two classes lie on a line, next to ties
    return Task(torch.nn.Linear(5, 4) if model == "linear" else perceptron(5, 4))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("phases", PHASES)
@pytest.mark.parametrize(("kind", "model"), KINDS)
def test_answers_are_those_of_the_plain_loop(kind, model, phases, rule, build_client):
    """Under every part of the rule d = s g + mu (w - anchor) + shift, and for every phase."""
    task = task_of(model)
    sizes = (30, 7, 19, 40)
    clients = {k: build_client(size, 5, 4, seed=k) for k, size in enumerate(sizes)}
    assignments = jobs(task, sizes, PHASES[phases], RULES[rule])
    expected = answers("sequential", task, clients, assignments)
    for one, other in zip(answers(kind, task, clients, assignments), expected, strict=True):
        assert all(torch.allclose(one.params[n], other.params[n], atol=1e-5) for n in one.params)
        for name in ("client_id", "num_samples", "steps", "loss_count", "coreset_size"):
            assert getattr(one, name) == getattr(other, name)
        assert one.base_version == other.base_version == 4
        assert one.loss_sum == pytest.approx(other.loss_sum, rel=1e-4)
        assert one.loss_square_sum == pytest.approx(other.loss_square_sum, rel=1e-4)
    if rule != "plain":
        without = answers("sequential", task, clients, jobs(task, sizes, PHASES[phases], {}))
        changed = [
            not torch.allclose(one.params[last], other.params[last], atol=2e-4)
            for one, other in zip(expected, without, strict=True)
            for last in list(one.params)[-2:-1]
        ]
        assert changed == [True, False, True, False]


OPTIMISERS = {
    "momentum": {"momentum": 0.9},
    "weight decay": {"weight_decay": 0.5},
    "clipped": {"clip_norm": 0.3},
    "momentum, decay, clipped": {"momentum": 0.8, "weight_decay": 0.5, "clip_norm": 0.3},
    "adam": {"adam": True},
    "adam, decay, clipped": {"adam": True, "weight_decay": 0.5, "clip_norm": 0.3},
}


@pytest.mark.parametrize("how", OPTIMISERS)
@pytest.mark.parametrize("phases", PHASES)
@pytest.mark.parametrize(("kind", "model"), KINDS)
def test_every_optimiser_is_that_of_the_plain_loop(kind, model, phases, how, build_client):
    """Beside the whole of the rule; clients end at different steps, and some rest in between."""
    task = task_of(model)
    sizes = (30, 7, 19, 40)
    clients = {k: build_client(size, 5, 4, seed=k) for k, size in enumerate(sizes)}
    assignments = jobs(task, sizes, PHASES[phases], RULES["all"])
    expected = answers("sequential", task, clients, assignments, **OPTIMISERS[how])
    found = answers(kind, task, clients, assignments, **OPTIMISERS[how])
    without, changed = answers("sequential", task, clients, assignments), []
    for one, other, plainly in zip(found, expected, without, strict=True):
        assert all(torch.allclose(one.params[n], other.params[n], atol=1e-5) for n in one.params)
        assert (one.steps, one.loss_count) == (other.steps, other.loss_count)
        assert one.loss_sum == pytest.approx(other.loss_sum, rel=1e-4)
        last = list(other.params)[-2]
        changed.append(not torch.allclose(other.params[last], plainly.params[last], atol=1e-3))
    # Gradients of the perceptron are shorter than what is clipped, but for who has the rule.
    assert changed == [True] * 4 or (model == "perceptron" and changed[::2] == [True] * 2)


@pytest.mark.parametrize("how", [{}, *OPTIMISERS.values()], ids=["sgd", *OPTIMISERS])
@pytest.mark.parametrize("kind", ["sequential", "compiled", "vectorised", "vectorised alone"])
@pytest.mark.parametrize("phases", ["full", "coreset by gradients"])
def test_part_of_a_model_is_trained_and_sent(kind, phases, how, build_client):
    """Every other client trains the last layer of two: of 44 + 27 parameters, at most half."""
    torch.manual_seed(0)
    task = Task(torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3)))
    sizes = (30, 7, 19, 40)
    clients = {k: build_client(size, 5, 3, seed=k) for k, size in enumerate(sizes)}
    rule = {"prox_mu": 0.5, "trained_share": 0.5}
    assignments = jobs(task, sizes, PHASES[phases], rule)
    expected = answers("sequential", task, clients, assignments, **how)
    start = task.initial_params()
    for one, other in zip(answers(kind, task, clients, assignments, **how), expected, strict=True):
        names = ["2.weight", "2.bias"] if one.client_id % 2 == 0 else list(start)
        assert list(one.params) == list(other.params) == names
        for name in names:
            assert torch.allclose(one.params[name], other.params[name], atol=1e-5)
            assert not torch.allclose(one.params[name], start[name], atol=1e-3)
    # The last layer alone is a linear model of what enters it, which stays as it was.
    hidden = {
        k: dataclasses.replace(data, x=torch.tanh(data.x @ start["0.weight"].T + start["0.bias"]))
        for k, data in clients.items()
    }
    last = torch.nn.Linear(6, 3)
    last.load_state_dict({n: start[f"2.{n}"] for n in ("weight", "bias")})
    alone = jobs(task, sizes, PHASES[phases], {"prox_mu": 0.5})
    for one, other in list(
        zip(answers("sequential", Task(last), hidden, alone, **how), expected, strict=True)
    )[::2]:
        for name, value in one.params.items():
            assert torch.allclose(value, other.params[f"2.{name}"], atol=1e-5)


def test_a_model_of_one_layer_is_not_trained_in_part(build_client):
    task, plan = Task(torch.nn.Linear(3, 2)), LocalPlan((Phase(1),), Way.FULL, trained_share=0.5)
    for kind in ("sequential", "compiled", "vectorised"):
        with pytest.raises(BadOption, match="one layer, so it cannot be trained in part"):
            answers(kind, task, {0: build_client(8)}, [Assignment(0, plan, 0, 0)])


@pytest.mark.parametrize("kind", ["sequential", "compiled", "vectorised", "vectorised alone"])
def test_an_answer_says_how_many_steps_and_what_the_first_epoch_met(kind, build_client):
    """From the definitions: a client of one batch meets all samples before it moves."""
    torch.manual_seed(0)
    task = Task(torch.nn.Linear(3, 2))
    clients = {0: build_client(8), 1: build_client(21, seed=1)}
    phases = (Phase(3), Phase(2, BY_INPUTS))
    first, second = answers(kind, task, clients, jobs(task, clients, phases, {}))
    losses = torch.nn.functional.cross_entropy(
        task.logits(task.initial_params(), clients[0].x), clients[0].y, reduction="none"
    ).double()
    assert (first.steps, first.loss_count) == (3 + 2, 8)
    assert first.loss_sum == pytest.approx(float(losses.sum()), rel=1e-5)
    assert first.loss_square_sum == pytest.approx(float((losses**2).sum()), rel=1e-5)
    assert (second.steps, second.loss_count) == (3 * 3 + 2, 21)
    assert 21 * second.loss_square_sum >= second.loss_sum**2 > 0


@pytest.mark.parametrize("kind", ["sequential", "compiled", "vectorised", "vectorised alone"])
def test_a_client_may_be_asked_twice_and_runs_on_another_stream_then(kind, build_client):
    torch.manual_seed(0)
    task = Task(torch.nn.Linear(3, 2))
    clients = {0: build_client(40), 1: build_client(9, seed=1)}
    plan = LocalPlan((Phase(2),), Way.FULL)
    asked = [
        Assignment(client, plan, 0, 0, repeat=again)
        for client, again in ((0, 0), (1, 0), (0, 1), (0, 0))
    ]
    found = answers(kind, task, clients, asked)
    assert [one.client_id for one in found] == [0, 1, 0, 0]
    weights = [one.params["weight"] for one in found]
    assert torch.allclose(weights[0], weights[3], atol=1e-6)
    assert not torch.allclose(weights[0], weights[2], atol=1e-6)
