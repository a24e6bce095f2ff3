"""Everything a run needs, built from an experiment's options and handed on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fedcore import plugins
from fedcore.client.executors.by_name import choose_device, choose_executor
from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.config import Experiment
from fedcore.records import RunKey
from fedcore.server.clock import VirtualClock
from fedcore.server.loop import LoopSettings, Server
from fedcore.server.method import Sampler, Strategy
from fedcore.sim.executors import Chained, Holding
from fedcore.sim.federation import Federation
from fedcore.sim.fleet import CapabilityLaw, Fleet, Link, build_fleet
from fedcore.sim.measure import Measure
from fedcore.sources.clients import LazyClients, sizes_of
from fedcore.types import ClientId, Executor, Params, TrainingSettings

# Rounds whose cohorts are drawn ahead, so that coresets of inputs are chosen beside the training of
# earlier ones; none where samples are loaded on demand, since only one cohort's are to be held.
AHEAD = 3


@dataclass(frozen=True, slots=True)
class World:
    """A simulated server, its clients, and what its models are measured on."""

    server: Server
    executor: Executor
    measure: Measure
    initial: Params
    device: torch.device
    deadline: float


def build_world(
    federation: Federation, experiment: Experiment, run: RunKey, strategy: Strategy
) -> World:
    """The world of one run: a strategy, a share of stragglers, a seed."""
    clients = federation.dataset.clients
    device = choose_device(experiment.device, experiment.executor)
    training = TrainingSettings(
        experiment.learning_rate, experiment.batch_size, experiment.measure_full_gradient
    )
    plain = choose_executor(
        experiment.executor,
        federation.task,
        clients,
        training,
        threads=experiment.threads,
        device=device,
    )
    executor: Executor = Chained(plain) if experiment.first_round == "chained" else plain
    if isinstance(clients, LazyClients):
        executor = Holding(executor, clients)
    sizes, sent = sizes_of(clients), model_bytes(federation.initial)
    fleet = fleet_of(sizes, experiment, run, sent)
    settings = LoopSettings(
        epochs=experiment.epochs,
        clients_per_round=experiment.clients_per_round,
        seed=run.seed,
        merges=experiment.rounds,
        ahead=0 if isinstance(clients, LazyClients) else AHEAD,
    )
    clock = VirtualClock(executor, fleet.deadline, sent)
    sampler = build_sampler(experiment)
    # The plain loop takes models that draw random numbers, whose order threads would change.
    threads = 1 if isinstance(plain, SequentialExecutor) else experiment.threads
    return World(
        Server(strategy, sampler, clock, fleet.profiles, sizes, settings),
        executor,
        Measure(federation, experiment.evaluate_samples, device, threads),
        federation.initial,
        device,
        fleet.deadline,
    )


def model_bytes(params: Params) -> int:
    """How much a client fetches, and sends back."""
    return sum(value.numel() * value.element_size() for value in params.values())


def fleet_of(
    sizes: Mapping[ClientId, int], experiment: Experiment, run: RunKey, sent: int = 0
) -> Fleet:
    """The fleet an experiment describes, the same for all its strategies; a model has ``sent``."""
    law = CapabilityLaw(
        experiment.capability, experiment.capability_std, experiment.capability_floor
    )
    link = Link(experiment.download or math.inf, experiment.upload or math.inf, sent)
    return build_fleet(
        sizes,
        law=law,
        stragglers=run.stragglers,
        epochs=experiment.epochs,
        seed=run.seed,
        link=link,
    )


def build_strategy(name: str, experiment: Experiment, proxy: str, num_clients: int = 0) -> Strategy:
    """Build a strategy with those options of the experiment that it takes.

    Args:
        name: of the strategy, or its file.
        experiment: all options.
        proxy: what the model says can stand in for its gradients.
        num_clients: of the whole fleet, for strategies that have to know.
    """
    own = proxy if experiment.proxy == "auto" else experiment.proxy
    known = {**vars_of(experiment), "proxy": own, "num_clients": num_clients}
    built: Strategy = plugins.build(
        "strategy", name, Strategy, options=known, method=experiment.method
    )
    return built


def build_sampler(experiment: Experiment) -> Sampler:
    """Build the sampler that an experiment names."""
    built: Sampler = plugins.build(
        "sampler",
        experiment.selection,
        Sampler,
        options=vars_of(experiment),
        method=experiment.method,
    )
    return built


def vars_of(experiment: Experiment) -> dict[str, Any]:
    """All options of an experiment by name."""
    return {field.name: getattr(experiment, field.name) for field in dataclasses.fields(experiment)}
