import dataclasses
import threading

import pytest
import torch
from torch import nn

from fedcore.client import coresets as coresets_module
from fedcore.client.coresets import Coresets
from fedcore.client.executors.linear import LinearExecutor
from fedcore.client.executors.vectorised import VectorisedExecutor
from fedcore.config import PRESETS, Experiment
from fedcore.errors import BadOption
from fedcore.records import RunKey
from fedcore.server.merge import aggregation
from fedcore.server.method import Sampler, Strategy
from fedcore.server.samplers import proportional
from fedcore.server.state import to_snapshot
from fedcore.sim import measure
from fedcore.sim import world as module
from fedcore.sim.federation import federate, federation_from_model
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.sources.clients import LazyClients
from fedcore.types import CoresetSpec, FederatedDataset, LocalPlan, Phase, Way

STRATEGIES = ("fedavg", "fedavg-ds", "fedprox", "fedcore")


@pytest.fixture
def federation(build_client):
    clients = {i: build_client(20 + 15 * i, seed=i) for i in range(6)}
    return federation_from_model(FederatedDataset(clients, build_client(50), 2), "logistic", 0)


SMALL = Experiment(rounds=4, epochs=3, clients_per_round=3, learning_rate=0.1)


def run(federation, strategy, experiment=SMALL, start=None, stragglers=30.0):
    key = RunKey("test", strategy, stragglers, 0)
    method = build_strategy(strategy, experiment, federation.proxy)
    return list(simulate_rounds(build_world(federation, experiment, key, method), start))


def untimed(result):
    return [dataclasses.replace(record, wall_seconds=0.0) for record, _ in result]


def test_the_same_seed_gives_the_same_rounds(federation):
    assert untimed(run(federation, "fedcore")) == untimed(run(federation, "fedcore"))


def test_every_strategy_sees_the_same_cohorts(federation):
    cohorts = [
        [[(c.client_id, c.copies) for c in record.clients] for record, _ in run(federation, name)]
        for name in STRATEGIES
    ]
    assert cohorts.count(cohorts[0]) == len(STRATEGIES)


def test_every_strategy_starts_from_the_same_model(federation):
    """At a learning rate of (almost) nothing all of them stay where they began."""
    still = dataclasses.replace(SMALL, learning_rate=1e-30)
    finals = [run(federation, name, still)[-1][1].params["linear.weight"] for name in STRATEGIES]
    finals = [final.cpu() for final in finals]
    assert all(torch.equal(final, federation.initial["linear.weight"]) for final in finals)


@pytest.mark.parametrize("stragglers", [10.0, 30.0, 60.0])
@pytest.mark.parametrize("preset", ["paper", "authors-code"])
def test_who_promises_the_deadline_keeps_it(federation, preset, stragglers):
    experiment = dataclasses.replace(SMALL, **PRESETS[preset], rounds=10)
    for name in STRATEGIES[1:]:
        result = run(federation, name, experiment, stragglers=stragglers)
        assert max(record.time for record, _ in result) <= 1.0


def test_a_run_goes_on_from_any_round_as_if_it_had_never_stopped(federation):
    whole = run(federation, "fedcore")
    rest = run(federation, "fedcore", start=to_snapshot(whole[1][1]))
    assert untimed(rest) == untimed(whole)[2:]
    assert untimed(run(federation, "fedcore", start=to_snapshot(whole[-1][1]))) == []


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("schedule", ["step", "cosine", "inverse-time"])
def test_optimisers_and_schedules_leave_nothing_to_remember_between_rounds(
    federation, optimiser, schedule
):
    how = {"momentum": 0.9} if optimiser == "sgd" else {"optimiser": "adam"}
    experiment = dataclasses.replace(SMALL, schedule=schedule, schedule_every=1, **how)
    whole = run(federation, "fedcore", experiment)
    rest = run(federation, "fedcore", experiment, start=to_snapshot(whole[1][1]))
    assert untimed(rest) == untimed(whole)[2:]
    assert untimed(run(federation, "fedcore", experiment)) == untimed(whole)
    assert untimed(whole) != untimed(run(federation, "fedcore"))


def test_without_test_data_there_is_no_test_accuracy(build_client):
    dataset = FederatedDataset({0: build_client(20), 1: build_client(9)}, None, 2)
    result = run(federation_from_model(dataset, "logistic", 0), "fedavg")
    assert result[0][0].test_accuracy is None


def test_a_strategy_gets_the_options_it_names(federation):
    experiment = dataclasses.replace(SMALL, fedprox_mu=0.25, prox_mu=0.5)
    late = module.fleet_of({0: 10, 1: 1000}, experiment, 30, 0)
    client = late.profiles[0]
    for name, mu in (("fedprox", 0.25), ("fedcore", 0.5)):
        strategy = build_strategy(name, experiment, "input")
        assert strategy.plan(client, 1e9, 3).prox_mu == mu


def test_a_file_that_builds_no_strategy_is_refused(tmp_path, federation):
    path = tmp_path / "broken.py"
    path.write_text("def build():\n    return 3\n")
    with pytest.raises(BadOption, match="must return a Strategy, got a int"):
        build_strategy(str(path), SMALL, "input")


def test_a_file_without_build_is_refused(tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("")
    with pytest.raises(BadOption, match="has no function 'build'"):
        build_strategy(str(path), SMALL, "input")


def test_a_round_says_what_of_its_real_time_went_where(federation):
    first, *_, last = [record for record, _ in run(federation, "fedcore")]
    assert first.selection_seconds > 0
    assert first.waited_seconds > 0
    assert last.selection_seconds < first.selection_seconds  # coresets by inputs are kept
    for record in (first, last):
        assert 0 < record.evaluation_seconds < record.wall_seconds
        assert record.waited_seconds < record.training_seconds < record.wall_seconds


@pytest.fixture
def asked():
    return []


@pytest.fixture
def on_demand(federation, asked):
    """The same federation, its clients loaded when asked for."""
    clients = federation.dataset.clients

    def load(client):
        asked.append(client)
        return clients[client]

    lazy = LazyClients([len(data) for data in clients.values()], load)
    return dataclasses.replace(
        federation, dataset=dataclasses.replace(federation.dataset, clients=lazy)
    )


@pytest.mark.parametrize("executor", ["auto", "sequential", "vectorised"])
@pytest.mark.parametrize("samples", [0, 40])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_clients_loaded_on_demand_train_the_same(
    federation, on_demand, executor, samples, strategy
):
    experiment = dataclasses.replace(SMALL, executor=executor, evaluate_samples=samples)
    kept, lazy = (run(f, strategy, experiment) for f in (federation, on_demand))
    weights = (result[-1][1].params["linear.weight"] for result in (kept, lazy))
    assert torch.equal(*weights)
    assert kept[-1][0].train_loss == pytest.approx(lazy[-1][0].train_loss)


@pytest.mark.parametrize("ahead", [0, 1, 10])
@pytest.mark.parametrize(
    ("name", "executor"), [("compiled", LinearExecutor), ("vectorised", VectorisedExecutor)]
)
def test_looking_ahead_changes_nothing_but_the_time(federation, monkeypatch, ahead, name, executor):
    """Each cohort is drawn and announced once, in the order of rounds."""
    named = dataclasses.replace(SMALL, executor=name)
    expected = untimed(run(federation, "fedcore", dataclasses.replace(named, threads=1)))
    drawn, announced = [], []
    draw, expect = proportional.build().draw, Coresets.expect

    def noted(asked):
        drawn.append(asked.version + 1)
        return draw(asked)

    def listened(self, assignments):
        announced.extend(one.base_version + 1 for one in assignments)
        return expect(self, assignments)

    monkeypatch.setattr(module, "AHEAD", ahead)
    monkeypatch.setattr(module, "build_sampler", lambda *_: Sampler(noted))
    monkeypatch.setattr(Coresets, "expect", listened)  # to which executors hand this on
    threaded = dataclasses.replace(named, threads=2)
    assert untimed(run(federation, "fedcore", threaded)) == expected
    assert drawn == [1, 2, 3, 4]
    if ahead:
        assert list(dict.fromkeys(announced)) == [1, 2, 3, 4]
    if executor is LinearExecutor:  # it tells itself again when a round begins
        before_the_first_round = announced[: len(announced) - announced[::-1].index(1)]
        assert max(before_the_first_round) == min(1 + ahead, 4)


def test_only_the_cohort_is_loaded_once_a_round(federation, on_demand, asked):
    experiment = dataclasses.replace(SMALL, evaluate_samples=1)
    method = build_strategy("fedcore", experiment, federation.proxy)
    key = RunKey("test", "fedcore", 30.0, 0)
    rounds = simulate_rounds(build_world(on_demand, experiment, key, method))
    next(rounds)
    for _ in range(3):
        asked.clear()
        record, _ = next(rounds)
        cohort = {client.client_id for client in record.clients}
        assert len(asked) == len(set(asked))
        assert set(asked) <= cohort


def test_a_model_that_draws_random_numbers_repeats_itself_under_a_seed(build_client, monkeypatch):
    """Such a model is evaluated as it is trained: in order, not on threads."""
    monkeypatch.setattr(measure, "CPU_CHUNK", 7)
    clients = {i: build_client(20 + 15 * i, seed=i) for i in range(4)}
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    federation = federate(FederatedDataset(clients, build_client(50), 2), model)
    answers = []
    for _ in range(2):
        torch.manual_seed(0)
        answers.append(untimed(run(federation, "fedavg")))
    assert answers[0] == answers[1]


@pytest.fixture
def held_choices(monkeypatch):
    """Coresets of all rounds but the first wait for a gate; sizes of those that were made."""
    gate, made = threading.Event(), []
    build = coresets_module.build_coreset

    def apart(asked):  # every round has clients of its own
        return dict.fromkeys(range(8 * asked.version, 8 * asked.version + 8), 1)

    def held(candidates, *arguments):
        if len(candidates) >= 100 + 8:
            assert gate.wait(20)
            made.append(len(candidates))
        return build(candidates, *arguments)

    monkeypatch.setattr(module, "build_sampler", lambda *_: Sampler(apart))
    monkeypatch.setattr(coresets_module, "build_coreset", held)
    return gate, made


def always_a_coreset(client, deadline, epochs):
    coreset = CoresetSpec(5, "uniform", "input")
    return LocalPlan((Phase(1), Phase(1, coreset)), Way.CORESET)


@pytest.mark.parametrize("executor", ["compiled", "vectorised"])
def test_closed_early_it_drops_what_was_begun_for_later_rounds(
    build_client, held_choices, executor
):
    gate, made = held_choices
    clients = {i: build_client(100 + i, seed=i) for i in range(32)}
    federation = federation_from_model(FederatedDataset(clients, None, 2), "logistic", 0)
    strategy = Strategy(always_a_coreset, aggregation("mean"))
    before = set(threading.enumerate())
    experiment = dataclasses.replace(SMALL, executor=executor, threads=2)
    key = RunKey("test", "own", 30.0, 0)
    rounds = simulate_rounds(build_world(federation, experiment, key, strategy))
    next(rounds)
    rounds.close()
    gate.set()
    choosing = [t for t in set(threading.enumerate()) - before if t.is_alive()]
    del rounds
    for worker in choosing:
        worker.join(20)
    assert len(made) <= 2  # of 24: what the two threads had begun


@pytest.mark.parametrize("executor", ["compiled", "vectorised", "sequential"])
def test_a_strategy_that_fails_in_a_later_round_delivers_those_before_it(
    federation, monkeypatch, executor
):
    """Round n draws client n alone, and the strategy has no plan for that of round 3."""
    sizes = {client: len(data) for client, data in federation.dataset.clients.items()}
    in_turn = Sampler(lambda asked: {asked.version + 1: 1})
    monkeypatch.setattr(module, "build_sampler", lambda *_: in_turn)

    def plan(client, deadline, epochs):
        if client.num_samples == sizes[3]:
            raise ZeroDivisionError("no plan")
        return LocalPlan((Phase(1),), Way.PARTIAL)

    experiment = dataclasses.replace(SMALL, executor=executor)
    strategy = Strategy(plan, aggregation("mean"))
    key = RunKey("test", "own", 30.0, 0)
    rounds = simulate_rounds(build_world(federation, experiment, key, strategy))
    assert [next(rounds)[0].number for _ in range(2)] == [1, 2]
    with pytest.raises(ZeroDivisionError, match="no plan"):
        next(rounds)


class Blind:
    """Measures nothing."""

    def train(self, params):
        return measure.Score(0.0, 0.0)

    def test(self, params, half="test"):
        return None

    def by_client(self, params):
        return {0: (0.0, 1)}


@pytest.mark.parametrize("name", STRATEGIES)
def test_evaluation_changes_no_weight(federation, build_client, name):
    """Bit for bit, also of a model that draws random numbers while it trains."""
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    for data in (federation, federate(federation.dataset, model)):
        method = build_strategy(name, SMALL, data.proxy)
        world = build_world(data, SMALL, RunKey("test", name, 30.0, 0), method)
        seen = list(simulate_rounds(world))
        method = build_strategy(name, SMALL, data.proxy)
        world = build_world(data, SMALL, RunKey("test", name, 30.0, 0), method)
        unseen = list(simulate_rounds(dataclasses.replace(world, measure=Blind())))
        for (record, one), (_, other) in zip(seen, unseen, strict=True):
            assert record.train_accuracy > 0
            assert all(torch.equal(one.params[n], other.params[n]) for n in one.params)


def test_the_last_round_tells_whom_the_model_serves(federation):
    key = RunKey("test", "fedavg", 30.0, 0)
    world = build_world(federation, SMALL, key, build_strategy("fedavg", SMALL, federation.proxy))
    *before, (last, state) = simulate_rounds(world)
    assert all(record.ending is None for record, _ in before)
    profiles = world.server.profiles
    slow = [
        c for c, p in profiles.items() if 3 * p.num_samples / p.capability > world.fleet.deadline
    ]
    clients = federation.dataset.clients
    scorer = measure.Evaluator([federation.task.logits])

    def accuracy(*chosen):
        return scorer.score(state.params, [clients[client] for client in chosen]).accuracy

    ending = last.ending
    assert (ending.clients, ending.slow_clients) == (6, len(slow))
    assert len(slow) == 2
    assert ending.slow_accuracy == pytest.approx(accuracy(*slow))
    assert ending.worst_accuracy == pytest.approx(min(accuracy(client) for client in clients))
    assert ending.deadline_seconds == world.fleet.deadline
    assert ending.model_bytes == 4 * (3 * 2 + 2)
    assert ending.validation_accuracy is None
