"""Simulate federated training: rounds of a strategy on a fleet, with a virtual clock."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from fedcore import plugins
from fedcore.config import Experiment
from fedcore.errors import BadData, BadOption
from fedcore.local.choose import choose_executor
from fedcore.seeding import stream
from fedcore.server.evaluate import evaluate, pool
from fedcore.server.round import RoundSettings, run_round
from fedcore.sim.cohort import draw_cohort
from fedcore.sim.fleet import CapabilityLaw, Fleet, build_fleet
from fedcore.task import Task
from fedcore.types import (
    ClientData,
    ClientId,
    FederatedDataset,
    Params,
    RoundRecord,
    RunKey,
    Strategy,
    TrainingSettings,
)


@dataclass(frozen=True, slots=True)
class Federation:
    """Data and model of an experiment: what all its strategies share."""

    dataset: FederatedDataset
    task: Task
    proxy: str  # what the model says can stand in for its gradients
    initial: Params


def simulate_rounds(
    federation: Federation,
    experiment: Experiment,
    run: RunKey,
    *,
    start: tuple[int, Params] | None = None,
) -> Iterator[tuple[RoundRecord, Params]]:
    """Train round by round; yields a record and the global model after each.

    Args:
        federation: data and model.
        experiment: all options.
        run: which strategy, at what share of stragglers, with which seed.
        start: (rounds done, model after them), to go on where an earlier run stopped.
    """
    clients = federation.dataset.clients
    sizes = {client: len(data) for client, data in clients.items()}
    fleet = fleet_of(sizes, experiment, run)
    method = build_strategy(run.strategy, experiment, federation.proxy)
    training = TrainingSettings(experiment.learning_rate, experiment.batch_size)
    executor = choose_executor(
        experiment.executor, federation.task, clients, training, threads=experiment.threads
    )
    settings = RoundSettings(fleet.deadline, experiment.epochs, run.seed)
    train, test = pool(clients.values()), federation.dataset.test
    done, params = start if start is not None else (0, federation.initial)
    for number in range(done + 1, experiment.rounds + 1):
        began = time.perf_counter()
        drawn = draw_cohort(
            experiment.selection, sizes, experiment.clients_per_round, number, run.seed
        )
        cohort = {client: (fleet.profiles[client], copies) for client, copies in drawn.items()}
        outcome = run_round(number, params, cohort, method, executor, settings)
        params = outcome.params
        trained = evaluate(federation.task, params, train)
        tested = evaluate(federation.task, params, test) if test is not None else None
        record = RoundRecord(
            number=number,
            seconds=outcome.seconds,
            deadline=fleet.deadline,
            clients=outcome.clients,
            rejected=outcome.rejected,
            train_loss=trained.loss,
            train_accuracy=trained.accuracy,
            test_loss=tested.loss if tested else None,
            test_accuracy=tested.accuracy if tested else None,
            wall_seconds=time.perf_counter() - began,
        )
        yield record, params


def fleet_of(sizes: Mapping[ClientId, int], experiment: Experiment, run: RunKey) -> Fleet:
    """The fleet an experiment describes; the same for all its strategies."""
    law = CapabilityLaw(
        experiment.capability, experiment.capability_std, experiment.capability_floor
    )
    return build_fleet(
        sizes, law=law, stragglers=run.stragglers, epochs=experiment.epochs, seed=run.seed
    )


def build_strategy(name: str, experiment: Experiment, proxy: str) -> Strategy:
    """Build a strategy with those options of the experiment that it takes."""
    build = plugins.load("strategy", name).build
    values = {
        **{key: getattr(experiment, key) for key in experiment.__dataclass_fields__},
        "proxy": proxy if experiment.proxy == "auto" else experiment.proxy,
    }
    taken = {key: values[key] for key in inspect.signature(build).parameters if key in values}
    strategy = build(**taken)
    if not isinstance(strategy, Strategy):
        raise BadOption(f"build of strategy {name!r} must return a fedcore Strategy")
    return strategy


def federation_from_model(dataset: FederatedDataset, model_name: str, seed: int) -> Federation:
    """Data plus the named model, initialised from ``seed``."""
    check_dataset(dataset)
    module = plugins.load("model", model_name)
    example = next(iter(dataset.clients.values())).x[0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(seed, "model").integers(1 << 62)))
        model = module.build(example, dataset.num_classes)
    task = Task(model)
    return Federation(dataset, task, module.PROXY, task.initial_params())


def check_dataset(dataset: FederatedDataset) -> None:
    """Refuse data that no model can train on, naming the client that has it."""
    if not dataset.clients:
        raise BadData("clients must hold at least one client, got none")
    for client, data in dataset.clients.items():
        _check_data(f"client {client}", data, dataset.num_classes)
    if dataset.test is not None:
        _check_data("the test set", dataset.test, dataset.num_classes)


def _check_data(owner: str, data: ClientData, num_classes: int) -> None:
    if len(data.x) != len(data.y):
        raise BadData(f"{owner} has {len(data.x)} inputs but {len(data.y)} labels; each needs one")
    if len(data) == 0:
        raise BadData(f"{owner} has no samples; leave it out")
    if data.x.is_floating_point() and not bool(torch.isfinite(data.x).all()):
        raise BadData(f"{owner} has NaN or infinity among its inputs; clean or drop those samples")
    if data.y.is_floating_point() or data.y.dim() != 1:
        raise BadData(f"labels of {owner} must be one whole number per sample")
    low, high = int(data.y.min()), int(data.y.max())
    if low < 0 or high >= num_classes:
        wrong = low if low < 0 else high
        raise BadData(f"{owner} has label {wrong}; labels must be 0 to {num_classes - 1}")
