"""The rounds of one run: a strategy on a fleet, with a virtual clock."""

from __future__ import annotations

import copy
import inspect
import os
import time
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import closing, suppress

import torch

from fedcore import plugins
from fedcore.client.executors.by_name import choose_device, choose_executor
from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.client.executors.stacked_model import scores_of
from fedcore.config import Experiment
from fedcore.errors import BadOption
from fedcore.seeding import stream
from fedcore.server.evaluate import Evaluator, draw, draw_from, pool
from fedcore.server.round import Cohort, RoundSettings, assignments_of, run_round
from fedcore.sim.cohort import draw_cohort
from fedcore.sim.federation import Federation
from fedcore.sim.fleet import CapabilityLaw, Fleet, build_fleet
from fedcore.sources.clients import ClientSizes, LazyClients, sizes_of
from fedcore.task import Task
from fedcore.types import (
    ClientData,
    ClientId,
    Params,
    RoundRecord,
    RunKey,
    Strategy,
    TrainingSettings,
)

# Rounds whose cohorts are drawn ahead, so that coresets of inputs are chosen beside the training of
# earlier ones; none where samples are loaded on demand, since only one cohort's are to be held.
AHEAD = 3


def simulate_rounds(
    federation: Federation,
    experiment: Experiment,
    run: RunKey,
    *,
    strategy: Strategy,
    start: tuple[int, Params] | None = None,
) -> Generator[tuple[RoundRecord, Params], None, None]:
    """Train round by round; yields a record and the global model after each.

    Closed early, it drops the work that was begun for later rounds.

    Args:
        federation: data and model.
        experiment: all options.
        run: at what share of stragglers, with which seed.
        strategy: what slow clients do.
        start: (rounds done, model after them), to go on where an earlier run stopped.
    """
    clients = federation.dataset.clients
    sizes = sizes_of(clients)
    fleet = fleet_of(sizes, experiment, run)
    training = TrainingSettings(
        experiment.learning_rate, experiment.batch_size, experiment.measure_full_gradient
    )
    device = choose_device(experiment.device, experiment.executor)
    executor = choose_executor(
        experiment.executor,
        federation.task,
        clients,
        training,
        threads=experiment.threads,
        device=device,
    )
    settings = RoundSettings(
        fleet.deadline,
        experiment.epochs,
        run.seed,
        chain_first_round=experiment.first_round == "chained",
    )
    train, test = _measured_on(federation, experiment, sizes)
    train = None if train is None else train.to(device)
    test = None if test is None else test.to(device)
    # The plain loop takes models that draw random numbers, whose order threads would change.
    plain = isinstance(executor, SequentialExecutor)
    evaluator = _evaluator(federation.task, device, 1 if plain else experiment.threads)
    done, params = start if start is not None else (0, federation.initial)
    params = {name: value.to(device) for name, value in params.items()}
    ahead = 0 if isinstance(clients, LazyClients) else AHEAD
    cohorts: deque[Cohort] = deque()
    with closing(executor):  # also when the caller wants no more rounds, or cannot take them
        for number in range(done + 1, experiment.rounds + 1):
            began, before = time.perf_counter(), copy.copy(executor.selection)
            while len(cohorts) <= min(ahead, experiment.rounds - number):
                following = number + len(cohorts)
                drawn = draw_cohort(
                    experiment.selection, sizes, experiment.clients_per_round, following, run.seed
                )
                cohorts.append(
                    {client: (fleet.profiles[client], drawn[client]) for client in drawn}
                )
                if ahead:
                    # A later round that cannot be planned is told of when it comes, after those
                    # before it; the present one is planned again, and fails there if it does here.
                    with suppress(Exception):
                        executor.expect(assignments_of(following, cohorts[-1], strategy, settings))
            cohort = cohorts.popleft()
            if isinstance(clients, LazyClients):
                clients.hold(cohort)
            outcome = run_round(number, params, cohort, strategy, executor, settings)
            params = dict(outcome.params)
            _wait_for(device)  # else what is left of the training would count as evaluation
            executed = time.perf_counter()
            if train is not None:
                trained = evaluator.score(params, train)
            else:
                trained = evaluator.score_each(params, clients.values())
            tested = evaluator.score(params, test) if test is not None else None
            ended = time.perf_counter()
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
                wall_seconds=ended - began,
                training_seconds=outcome.training_seconds,
                selection_seconds=executor.selection.work - before.work,
                waited_seconds=executor.selection.waited - before.waited,
                evaluation_seconds=ended - executed,
            )
            yield record, {name: value.cpu() for name, value in params.items()}


def _evaluator(task: Task, device: torch.device, threads: int) -> Evaluator:
    """Forward passes on every core that may be used; a GPU has enough to do with one."""
    count = (threads or os.cpu_count() or 1) if device.type == "cpu" else 1
    return Evaluator([scores_of(task, device) for _ in range(count)])


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _measured_on(
    federation: Federation, experiment: Experiment, sizes: ClientSizes
) -> tuple[ClientData | None, ClientData | None]:
    """Training and test data that rounds are measured on: the same for all runs.

    None in place of training data: all of it, client by client, since it need not fit in memory.
    """
    count = experiment.evaluate_samples
    clients = federation.dataset.clients
    train = None
    if 0 < count < sizes.counts.sum():
        train = draw_from(clients, sizes, count, stream(0, "evaluate", "train"))
    elif not isinstance(clients, LazyClients):
        train = pool(clients.values())
    test = federation.dataset.test
    if test is not None:
        test = draw(test, count, stream(0, "evaluate", "test"))
    return train, test


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
    build = getattr(plugins.load("strategy", name), "build", None)
    if build is None:
        raise BadOption(f"strategy file {name!r} has no function 'build'; see examples/")
    values = {
        **{key: getattr(experiment, key) for key in experiment.__dataclass_fields__},
        "proxy": proxy if experiment.proxy == "auto" else experiment.proxy,
    }
    taken = {key: values[key] for key in inspect.signature(build).parameters if key in values}
    strategy = build(**taken)
    if not isinstance(strategy, Strategy):
        raise BadOption(f"build of strategy {name!r} must return a fedcore Strategy")
    return strategy
