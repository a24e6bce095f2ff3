"""Every executor gives what the plain loop gives, for every strategy, over several rounds.

Coresets are those of the default selector, also where they go by gradients, which differ in their
last bits from executor to executor: k-medoids looks at points in an order that these do not change.

The CNN is trained in float64: among the millions of units of three rounds one comes within
float32 rounding of ReLU's kink, or two of a tie in a max-pool, and a gradient jumps there.
"""

import dataclasses
import functools

import pytest
import torch

from fedcore import plugins
from fedcore.client.executors.vectorised import VectorisedExecutor
from fedcore.config import Experiment
from fedcore.coreset.proxies import PROXIES
from fedcore.records import RunKey
from fedcore.sim import world
from fedcore.sim.federation import federate, federation_from_model
from fedcore.sim.rounds import simulate_rounds
from fedcore.sim.world import build_strategy, build_world
from fedcore.types import ClientData, FederatedDataset

EXECUTORS = {
    "logistic": ["compiled", "vectorised"],
    "logistic-sigmoid": ["compiled", "vectorised"],
    "cnn": ["vectorised"],
    "char-lstm": ["vectorised"],
}
SIZES = {"cnn": (3, 11, 20, 60), "char-lstm": (3, 11, 20, 60)}
SMALL = Experiment(
    rounds=3, epochs=4, clients_per_round=4, learning_rate=0.1, batch_size=8, prox_mu=0.3
)


def final(federation, strategy, executor, **options):
    experiment = dataclasses.replace(SMALL, executor=executor, **options)
    method = build_strategy(strategy, experiment, federation.proxy)
    run = RunKey("test", strategy, 40.0, 0)
    *_, (record, state) = simulate_rounds(build_world(federation, experiment, run, method))
    return record, state.params


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
    federation = federation_from_model(dataset, model, 1)
    return federate(dataset, federation.task.model.double()) if model == "cnn" else federation


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


@pytest.mark.parametrize("strategy", plugins.names("strategy"))
@pytest.mark.parametrize(
    ("model", "executor"), [(model, e) for model, all_of in EXECUTORS.items() for e in all_of]
)
def test_equal_to_the_plain_loop(model, executor, strategy):
    answer = final(federation_for(model), strategy, executor)
    assert_same(answer, plain(model, strategy))


@pytest.mark.parametrize("proxy", PROXIES)
@pytest.mark.parametrize("below", ["static-coreset", "forward", "random", "sit-out"])
def test_equal_for_every_way_below_one_pass(below, proxy):
    """Every kind of phase: watched epochs, coresets, forward passes, random subsets."""
    options = {"below_one_pass": below, "proxy": proxy}
    answer = final(federation_for("logistic"), "fedcore", "vectorised", **options)
    assert_same(answer, plain("logistic", "fedcore", **options))


@pytest.mark.parametrize("strategy", ["fedprox", "fedcore"])
@pytest.mark.parametrize(("block", "threads"), [(1, 1), (1, 2), (2, 2), (4, 1)])
@pytest.mark.parametrize("model", ["cnn", "char-lstm", "logistic"])
def test_blocks_and_threads_change_nothing(model, block, threads, strategy, monkeypatch):
    def choose(_, task, clients, settings, **__):
        return VectorisedExecutor(task, clients, settings, block=block, threads=threads)

    monkeypatch.setattr(world, "choose_executor", choose)
    answer = final(federation_for(model), strategy, "vectorised")
    assert_same(answer, plain(model, strategy))


@pytest.mark.parametrize("weighting", ["scaled", "normalised", "proportional"])
@pytest.mark.parametrize("executor", ["compiled", "vectorised"])
def test_equal_under_every_weighting(executor, weighting):
    answer = final(federation_for("logistic"), "fedcore", executor, weighting=weighting)
    assert_same(answer, plain("logistic", "fedcore", weighting=weighting))


@pytest.mark.parametrize("strategy", ["fedprox", "fedcore"])
@pytest.mark.parametrize(("model", "executor"), [("logistic", "compiled"), ("cnn", "vectorised")])
def test_equal_with_larger_steps_for_slow_clients(model, executor, strategy):
    options = {"catch_up": 4.0}
    answer = final(federation_for(model), strategy, executor, **options)
    expected = plain(model, strategy, **options)
    assert_same(answer, expected)
    unscaled = plain(model, strategy)[1]
    assert any(not torch.allclose(expected[1][n], unscaled[n], atol=1e-3) for n in unscaled)
