"""What the study runs: methods, fleets, and the size of each benchmark's part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedcore.config import Experiment, resolve
from fedcore.sources.benchmark import find


@dataclass(frozen=True)
class Method:
    """A row of the tables: a strategy with the options that make it this method."""

    title: str
    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)


# FedAvg's own weights, m_i / Σ m, where clients are not drawn by their size already.
_BY_SAMPLES = {"aggregation": "samples"}


def _drawn(title: str, sampler: str, **more: Any) -> Method:
    return Method(title, "fedavg", {"selection": sampler, **more})


METHODS: dict[str, Method] = {
    # synchronous
    "fedavg": Method("FedAvg", "fedavg"),
    "fedavg-ds": Method("FedAvg-DS", "fedavg-ds"),
    "fedavg-os": Method("FedAvg-OS", "fedavg-os"),
    "partial": Method("Partial work", "partial"),
    "fedprox": Method("FedProx", "fedprox"),
    "fednova": Method("FedNova", "fednova"),
    "scaffold": Method("SCAFFOLD", "scaffold"),
    "scaffold-partial": Method("SCAFFOLD, partial", "scaffold", {"method": {"local": "partial"}}),
    "feddyn": Method("FedDyn", "feddyn"),
    "feddyn-partial": Method("FedDyn, partial", "feddyn", {"method": {"local": "partial"}}),
    # server optimisers
    "fedavgm": Method("FedAvgM", "fedavgm"),
    "fedadam": Method("FedAdam", "fedadam"),
    "fedyogi": Method("FedYogi", "fedyogi"),
    "fedadagrad": Method("FedAdagrad", "fedadagrad"),
    # asynchronous
    "fedasync-constant": Method(
        "FedAsync, constant", "fedasync", {"method": {"staleness": "constant"}}
    ),
    "fedasync": Method("FedAsync, polynomial", "fedasync"),
    "fedasync-hinge": Method("FedAsync, hinge", "fedasync", {"method": {"staleness": "hinge"}}),
    "fedbuff": Method("FedBuff", "fedbuff"),
    "fadas": Method("FADAS", "fadas"),
    "ca2fl": Method("CA2FL", "ca2fl"),
    # who is drawn
    "fedavg-uniform": _drawn("FedAvg, uniform", "uniform", **_BY_SAMPLES),
    "oort": _drawn("FedAvg, Oort", "oort", **_BY_SAMPLES),
    "tifl": _drawn("FedAvg, TiFL", "tifl", **_BY_SAMPLES),
    "power-of-choice": _drawn("FedAvg, power-of-choice", "power-of-choice"),
    # part of the model
    "timelyfl": Method("TimelyFL", "timelyfl"),
    # samples
    # Its answers weigh by samples, so that draws by size would count sizes twice.
    "fedbalancer": Method("FedBalancer", "fedbalancer", {"selection": "uniform"}),
    "random-subset": Method("Random subset", "random-subset"),
    "random-epochs": Method("Random epochs", "random-epochs"),
    "stratified": Method("Stratified", "stratified"),
    "importance": Method("Importance sampling", "importance"),
    # ours
    "tempo": Method("Tempo", "tempo"),
    "fedcore": Method("FedCore", "fedcore"),
    "fedcore-uniform": Method(
        "FedCore, uniform", "fedcore", {"selection": "uniform", **_BY_SAMPLES}
    ),
    "fedcore-buff": Method("FedCore-Buff", "fedcore-buff"),
    "fedcore-async": Method("FedCore-Async", "fedcore-async"),
    "fedcore-momentum": Method(
        "FedCore, server momentum", "fedcore", {"server_optimiser": "momentum"}
    ),
    "fedcore-adam": Method("FedCore, server Adam", "fedcore", {"server_optimiser": "adam"}),
    "fedcore-yogi": Method("FedCore, server Yogi", "fedcore", {"server_optimiser": "yogi"}),
    "fedcore-adagrad": Method(
        "FedCore, server Adagrad", "fedcore", {"server_optimiser": "adagrad"}
    ),
}
OURS = tuple(name for name in METHODS if name.startswith(("fedcore", "tempo")))

FLEETS: dict[str, dict[str, Any]] = {
    "paper": {"capability": "normal"},
    "phones": {"capability": "phones"},
}


@dataclass(frozen=True)
class Part:
    """The study on one benchmark."""

    methods: tuple[str, ...]
    fleets: tuple[str, ...]
    seeds: tuple[int, ...]
    learning_rates: tuple[tuple[float, ...], ...]  # of each fleet
    deadlines: float  # virtual time that every run has
    options: Mapping[str, Any] = field(default_factory=dict)

    def grid(self, fleet: str) -> tuple[float, ...]:
        """Step sizes that every method of a fleet tries."""
        return self.learning_rates[self.fleets.index(fleet)]


TEN = (
    *("fedavg", "fedavg-os", "fedprox", "fednova", "timelyfl", "fedbalancer", "random-subset"),
    *("fedbuff", "fedcore", "fedcore-buff"),
)
PARTS: dict[str, Part] = {
    "synthetic-1-1": Part(
        # TimelyFL trains some of several layers, and here there is one.
        methods=tuple(name for name in METHODS if name != "timelyfl"),
        fleets=("paper", "phones"),
        seeds=(0, 1, 2),
        learning_rates=((0.0001, 0.0003, 0.001, 0.003, 0.01),) * 2,
        deadlines=100,
    ),
    "mnist": Part(
        methods=TEN,
        fleets=("paper", "phones"),
        seeds=(0,),
        learning_rates=((0.01, 0.03, 0.1), (0.01, 0.03, 0.1)),
        deadlines=30,
        options={"evaluate_samples": 5000},
    ),
    "shakespeare": Part(
        methods=("fedavg", "fedprox", "random-subset", "fedbuff", "fedcore"),
        fleets=("paper",),
        seeds=(0,),
        learning_rates=((0.1, 0.3),),
        deadlines=15,
        options={"evaluate_samples": 5000},
    ),
}
# Ten methods of the first part, for what a comparison costs: no network, hence no TimelyFL.
COST = tuple("fedasync" if name == "timelyfl" else name for name in TEN)


def experiment_of(benchmark: str, fleet: str, name: str, **more: Any) -> Experiment:
    """The comparison that is one method at every step size and seed; ``more`` goes before."""
    part, method = PARTS[benchmark], METHODS[name]
    options = {
        "benchmark": benchmark,
        "strategies": (method.strategy,),
        "stragglers": (30.0,),
        "seed": part.seeds,
        "time_budget": part.deadlines,
        "learning_rate": part.grid(fleet),
        **part.options,
        **FLEETS[fleet],
        **method.options,
        **more,
    }
    return resolve(options, lambda name, preset: find(name).hyperparameters(preset))
