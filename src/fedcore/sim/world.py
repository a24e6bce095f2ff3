"""Everything a run needs, built from an experiment's options, and the rounds it trains."""

import copy
import math
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from statistics import mean

import torch

from fedcore import compression, plugins
from fedcore.client.executors.by_name import choose_device, choose_executor
from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.config import SERVER_OPTIMISERS, Experiment
from fedcore.coreset.proxies import STATIC
from fedcore.errors import BadOption
from fedcore.history import History
from fedcore.rates import factor_of
from fedcore.records import Ending, RoundRecord, RunKey, Snapshot
from fedcore.server.clock import VirtualClock
from fedcore.server.controller import Controller
from fedcore.server.loop import Merged, Server
from fedcore.server.merge import averaging
from fedcore.server.method import Sampler, Strategy
from fedcore.server.state import ServerState, from_snapshot
from fedcore.sim.federation import Federation
from fedcore.sim.fleet import Fleet, fleet_of
from fedcore.sim.measure import Measure, Replay, Score, slow_and_worst
from fedcore.sources.clients import LazyClients, is_streamed, sizes_of
from fedcore.types import Assignment, Executor, LocalUpdate, Params, SelectionTime, TrainingSettings

# Rounds whose cohorts are drawn ahead, so that coresets of inputs are chosen beside the training
# of earlier ones; none of lazy clients, of whom one cohort is to be held.
AHEAD = 3
Rounds = Generator[tuple[RoundRecord, ServerState], None, None]


class Simulated:
    """An executor around another: what only a simulation asks of it.

    ``unsent`` is what clients keep of their moves. ``chained`` repeats a defect of the authors'
    code (docs/deviations.md): in its first round each client starts where the one before it ended.
    No preset sets it.
    """

    replayed = False  # whether nothing is trained, for what would come of it is known: ``Replay``

    def __init__(self, executor: Executor, *, chained: bool = False) -> None:
        self.unsent: dict[int, torch.Tensor] = {}
        self.selection, self.memory = executor.selection, executor.memory
        self.expect, self.close, self._run = executor.expect, executor.close, executor.run
        self._chained = chained

    def run(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        """Train every assignment from ``params``."""
        if self.replayed:
            return [LocalUpdate(one.client_id, params, num_samples=1) for one in assignments]
        alone = self._chained and assignments[0].base_version == 0
        updates: list[LocalUpdate] = []
        for told in [[one] for one in assignments] if alone else [assignments]:
            updates += self._run(updates[-1].params if updates else params, told)
        return updates

    def sent(self, how: compression.Compression, base: Params, one: LocalUpdate) -> LocalUpdate:
        """An answer as the server gets it; its client keeps the rest of its move."""
        packed, kept = how.send(one.params, base, self.unsent.get(one.client_id))
        self.unsent[one.client_id] = kept
        return replace(one, params=how.receive(packed, base))


@dataclass(frozen=True, slots=True)
class World:
    """A simulated server, its clients, and what its models are measured on."""

    server: Server
    executor: Simulated
    measure: Measure
    federation: Federation
    fleet: Fleet
    experiment: Experiment
    device: torch.device


def build_world(
    federation: Federation, experiment: Experiment, run: RunKey, strategy: Strategy
) -> World:
    """The world of one run: a strategy, a share of stragglers, a seed."""
    check_fit(strategy, run.strategy, experiment, federation)
    clients = federation.dataset.clients
    device = choose_device(experiment.device, experiment.executor)
    names = list(federation.task.statistics()) if experiment.batch_norm == "average" else []
    strategy = averaging(strategy, experiment.aggregation, names)
    of = experiment.executor, federation.task, clients, training_of(experiment)
    plain = choose_executor(*of, threads=experiment.threads, device=device)
    chained = experiment.first_round == "chained"
    executor = Simulated(plain, chained=chained)
    sizes, sent = sizes_of(clients), federation.model_bytes
    fleet = fleet_of(sizes, experiment, run.stragglers, run.seed, sent)
    ahead = 0 if fleet.presence or isinstance(clients, LazyClients) else AHEAD
    asked = experiment.epochs, experiment.clients_per_round, run.seed, experiment.most_rounds
    clock = VirtualClock(executor, fleet.deadline, sent, presence=fleet.presence, chained=chained)
    clock.budget = experiment.time_budget * fleet.deadline or math.inf
    clock.dropout, clock.promised = experiment.dropout, strategy.keeps_deadline
    clock.packed = compression.upward_share(experiment.compress, sent)
    if how := compression.read("compress", experiment.compress):
        clock.sent = partial(executor.sent, how)
    # The plain loop takes models that draw random numbers, whose order threads would change.
    threads = 1 if isinstance(plain, SequentialExecutor) else experiment.threads
    several = len(experiment.learning_rates) > 1
    controller = build_controller(experiment, run.stragglers)
    measure = Measure(federation, experiment.evaluate_samples, device, threads, split=several)
    parts = strategy, build_sampler(experiment, sent), clock, fleet.profiles, sizes
    server = Server(*parts, *asked, ahead, controller, measure.loss_of)
    working = (True for client in sizes if server.assign(client, 0)[0].plan.phases)
    if experiment.time_budget and not any(working):
        never = f"no client can do what {run.strategy} asks in {fleet.deadline:g} seconds"
        raise BadOption(f"{never}, so time would not pass; leave out --time-budget")
    return World(server, executor, measure, federation, fleet, experiment, device)


def check_fit(strategy: Strategy, name: str, one: Experiment, federation: Federation) -> None:
    """Refuse a strategy, options, a model and clients that do not go together."""
    if strategy.in_parts and one.compress != "none":
        raise BadOption(f"compress must be none where {name} sends parts of models")
    if strategy.in_parts:
        federation.task.check_layers()
    if is_streamed(federation.dataset.clients) and one.proxy == STATIC:
        raise BadOption("proxy 'input' needs all of a client, read batch by batch; use another")
    if one.batch_norm == "average" and one.compress != "none" and federation.task.statistics():
        raise BadOption("compress must be none where batch_norm is average; use local or frozen")


def train_run(
    federation: Federation,
    experiment: Experiment,
    run: RunKey,
    start: Snapshot | None = None,
    past: Sequence[RoundRecord] = (),
    known: History | None = None,
) -> Rounds:
    """A run after the ``past`` rounds, from ``start`` on; what is ``known`` is not trained."""
    there = (federation.proxy, len(federation.dataset.clients), federation.model_bytes)
    own = replace(experiment, learning_rate=run.learning_rate or experiment.learning_rate)
    sources = {plugins.title(strategy): strategy for strategy in experiment.strategies}
    world = build_world(federation, own, run, build_strategy(sources[run.strategy], own, *there))
    if known is not None:
        world.executor.replayed = True
        world = replace(world, measure=Replay(known, world.measure))
    return simulate_rounds(world, start, past)


def simulate_rounds(
    world: World, start: Snapshot | None = None, past: Sequence[RoundRecord] = ()
) -> Rounds:
    """Train the rounds after the ``past`` ones, from ``start`` on; yields records and states."""
    executor, tested = world.executor, ((r.test_accuracy, r.test_loss) for r in past)
    accuracies = [goodness(*one) for one in tested if one != (None, None)]
    if start is None:
        initial = world.federation.initial
        state = ServerState({name: value.to(world.device) for name, value in initial.items()})
    else:
        state = from_snapshot(start, world.device, world.server.assign)
        executor.memory.update(state.on_clients)
        executor.unsent.update(state.unsent)
    with closing(executor):  # also when the caller wants no more rounds, or cannot take them
        began, before = time.perf_counter(), copy.copy(executor.selection)
        for merged in world.server.run(state):
            memory, unsent = dict(executor.memory), dict(executor.unsent)
            record = _record(world, merged, began, before, accuracies)
            yield record, replace(merged.state, on_clients=memory, unsent=unsent)
            if record.ending:
                break
            began, before = time.perf_counter(), copy.copy(executor.selection)


def _record(
    world: World, merged: Merged, began: float, before: SelectionTime, accuracies: list[float]
) -> RoundRecord:
    """What a round came to; its test accuracy, if it is measured, goes to the ``accuracies``."""
    if world.device.type == "cuda":  # else what is left of the training would count as evaluation
        torch.cuda.synchronize(world.device)
    executed = time.perf_counter()
    last = merged.cut or merged.state.version == world.server.merges
    trained = tested = Score(None, None)
    if last or merged.state.version % world.experiment.evaluate_every == 0:
        trained = world.measure.train(merged.state.params) or trained
        tested = world.measure.test(merged.state.params) or tested
    if tested.loss is not None:
        accuracies.append(goodness(tested.accuracy, tested.loss))
        since = len(accuracies) - 1 - accuracies.index(max(accuracies))
        last = last or 0 < world.experiment.patience <= since
    ending = _ending(world, merged.state.params) if last else None
    ended, chosen = time.perf_counter(), world.executor.selection
    what = merged.seconds, world.fleet.deadline, merged.clients, merged.rejected
    return RoundRecord(
        *(merged.state.version, *what),
        *(trained.loss, trained.accuracy, tested.loss, tested.accuracy),
        wall_seconds=ended - began,
        metrics=tested.metrics,
        ending=ending,
        cut=merged.cut,
        events=merged.events,
        allowed=world.server.clock.deadline if world.server.controller else None,
        reason=world.server.reason,
        training_seconds=merged.training_seconds,
        selection_seconds=chosen.work - before.work,
        waited_seconds=chosen.waited - before.waited,
        evaluation_seconds=ended - executed,
    )


def goodness(accuracy: float | None, loss: float | None) -> float:
    """What patience goes by: the accuracy, or -L where there are no classes."""
    return -(math.inf if loss is None else loss) if accuracy is None else accuracy


def _ending(world: World, params: Params) -> Ending:
    """How the last model does on clients' own data, and on the half that is to choose by."""
    fleet, clients = world.fleet, world.federation.dataset.clients
    slow, worst = slow_and_worst(world.measure.by_client(params), fleet.slow)
    own = (world.measure.test(params, "validation") or Score(None, None)).accuracy
    sent = sum(value.nbytes for value in params.values())
    return Ending(fleet.deadline, sent, len(clients), len(fleet.slow), slow, worst, own)


def levels_of(experiment: Experiment, federations: Mapping[int, Federation]) -> list[float]:
    """Shares of stragglers: those asked for, or what the deadline makes, in the mean over seeds."""
    build_controller(experiment, 30.0)  # whose refusals come before anything is trained
    if not experiment.seconds:
        return list(experiment.stragglers)
    shares = []
    for seed, one in federations.items():
        sizes = sizes_of(one.dataset.clients)
        shares.append(fleet_of(sizes, experiment, 0.0, seed, one.model_bytes).stragglers)
    return [round(mean(shares), 1)]


def training_of(one: Experiment) -> TrainingSettings:
    """How the clients of an experiment take their steps."""
    factor = factor_of(one.schedule, one.rounds, one.schedule_decay, one.schedule_every)
    how = factor, one.momentum, one.optimiser == "adam", one.weight_decay, one.clip_norm
    return TrainingSettings(one.learning_rate, one.batch_size, one.measure_full_gradient, *how)


def build_strategy(
    name: str, experiment: Experiment, proxy: str, num_clients: int = 0, model_bytes: int = 0
) -> Strategy:
    """Build a strategy with those options of the experiment that it takes.

    ``proxy`` is the model's, unless an option overrules it. It may also name ``num_clients``,
    ``model_bytes``, ``step_size``, the function version -> η, and ``options``, all of these.
    """
    known = {**vars(experiment), "proxy": proxy if experiment.proxy == "auto" else experiment.proxy}
    known |= {"num_clients": num_clients, "model_bytes": model_bytes, "around": None}
    known["step_size"] = training_of(experiment).learning_rate_at
    known["options"], method = known, experiment.method
    built: Strategy = plugins.build("strategy", name, Strategy, options=known, method=method)
    if experiment.server_optimiser != "none":
        known["around"], name = built, SERVER_OPTIMISERS[experiment.server_optimiser]
        built = plugins.build("strategy", name, Strategy, options=known, method=method)
    return built


def build_sampler(experiment: Experiment, model_bytes: int = 0) -> Sampler:
    """Build the sampler that an experiment names, for a model of so many bytes."""
    name, method = experiment.selection, experiment.method
    known = {**vars(experiment), "model_bytes": model_bytes}
    built: Sampler = plugins.build("sampler", name, Sampler, options=known, method=method)
    return built


def build_controller(experiment: Experiment, stragglers: float) -> Controller | None:
    """Build what sets the deadlines of a run at a share of stragglers; None: they stay."""
    known, method = {**vars(experiment), "stragglers": stragglers}, experiment.method
    build = partial(plugins.build, options=known, method=method)
    return next((build(*one, Controller) for one in experiment.controllers), None)
