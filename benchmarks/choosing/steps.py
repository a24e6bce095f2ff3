"""Catch-up against simply larger steps for everybody: each method at every step size.

    python -m benchmarks.choosing.steps [--part synthetic] [--piece 1/4] [--out FOLDER] ...

As `python -m benchmarks.choosing`, on the paper's fleet: README.md beside this.
"""

from __future__ import annotations

import functools
import itertools
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

from benchmarks.choosing import catch_up  # noqa: E402
from benchmarks.choosing.pieces import lines_of, machine_of, options, work_off, write  # noqa: E402
from benchmarks.stragglers.__main__ import nothing_of_training_data  # noqa: E402
from fedcore.config import Experiment, resolve  # noqa: E402
from fedcore.history import STEADY  # noqa: E402
from fedcore.records import RunKey  # noqa: E402
from fedcore.server.merge import aggregation  # noqa: E402
from fedcore.server.method import Strategy  # noqa: E402
from fedcore.sim.federation import Federation, federation_from_model  # noqa: E402
from fedcore.sim.measure import Measure  # noqa: E402
from fedcore.sim.world import build_strategy, build_world, simulate_rounds  # noqa: E402
from fedcore.sources.benchmark import find  # noqa: E402
from fedcore.strategies import tempo  # noqa: E402

Run = tuple[str, float, float, int]  # method, stragglers, step size, seed
FEW = {"coreset_epochs": 1}


@dataclass(frozen=True)
class Method:
    """A strategy by its name and options; with a rule, that of catching up at the merge."""

    title: str
    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    rule: catch_up.Rule | None = None
    bounded: bool = False  # merges go no further than their longest answer


METHODS: dict[str, Method] = {
    "fedavg": Method("FedAvg, no deadline", "fedavg"),
    "fedprox": Method("FedProx", "fedprox"),
    "fedprox-3": Method("FedProx, `--catch-up 3`", "fedprox", {"catch_up": 3.0}),
    "fedprox-10": Method("FedProx, `--catch-up 10`", "fedprox", {"catch_up": 10.0}),
    "fednova": Method("FedNova", "fednova"),
    "fedcore-nova": Method(
        "FedNova on FedCore's plans", "fednova", {"method": {"local": "fedcore"}}
    ),
    "fedcore": Method("FedCore, as in the paper", "fedcore"),
    "few": Method("FedCore, few epochs", "fedcore", FEW),
    "few-3": Method("FedCore, few epochs, `--catch-up 3`", "fedcore", {**FEW, "catch_up": 3.0}),
    "few-10": Method("FedCore, few epochs, `--catch-up 10`", "fedcore", {**FEW, "catch_up": 10.0}),
    "few-median": Method("the same, to the median", "fedcore", FEW, catch_up.to_the_median),
    "drawn": Method("whole epochs, then a draw", "drawn"),
    "drawn-unbounded": Method("the same, E m / n", "drawn", {}, catch_up.unbounded),
    "drawn-root": Method("the same, √(E m / n)", "drawn", {}, catch_up.by_the_root),
    "drawn-median": Method("the same, to the median", "drawn", {}, catch_up.to_the_median),
    "drawn-longest": Method("the same, to the longest", "drawn", {}, catch_up.to_the_longest),
    "drawn-nova": Method("the same, FedNova", "drawn", {}, catch_up.nova),
    "drawn-nova-whole": Method("the same, FedNova, whole rounds", "drawn", {}, catch_up.nova_whole),
    "drawn-nova-root": Method("the same, √ of FedNova's", "drawn", {}, catch_up.nova_root),
    "drawn-nova-root-longest": Method(
        "that, within the longest: Tempo's earlier rule", "drawn", {}, catch_up.nova_root, True
    ),
    "tempo": Method("the same, Tempo: γ by turning", "tempo"),
    "drawn-nova-longest": Method(
        "the same, FedNova, to the longest", "drawn", {}, catch_up.nova_longest
    ),
    "drawn-nova-median": Method(
        "the same, FedNova, to the median", "drawn", {}, catch_up.nova_median
    ),
}
NOVA = (
    *("drawn-nova", "drawn-nova-whole", "drawn-nova-root", "drawn-nova-root-longest"),
    *("tempo", "drawn-nova-longest"),
)


@dataclass(frozen=True)
class Part:
    """The comparison on one benchmark."""

    benchmark: str
    methods: tuple[str, ...]
    stragglers: tuple[float, ...]
    learning_rates: tuple[float, ...]
    seeds: tuple[int, ...]
    rounds: int
    options: Mapping[str, Any] = field(default_factory=dict)


PARTS: dict[str, Part] = {
    "synthetic": Part(
        "synthetic-1-1",
        tuple(METHODS),
        (30.0, 90.0),
        (0.0003, 0.001, 0.003, 0.01, 0.03),
        (0, 1, 2),
        rounds=100,
    ),
    "mnist": Part(
        "mnist",
        (
            *("fedavg", "fedprox", "fedprox-3", "fedcore", "few", "few-3", "few-median", "drawn"),
            *("fednova", "drawn-median", "drawn-longest", *NOVA),
        ),
        (30.0, 90.0),
        (0.03, 0.1, 0.3),
        (0, 1),
        rounds=30,
        options={"evaluate_samples": 5000},
    ),
    "shakespeare": Part(
        "shakespeare",
        (
            *("fedavg", "fedprox", "fedprox-10", "fedcore", "few-10", "few-median", "drawn-median"),
            *("drawn-longest", *NOVA),
        ),
        (30.0,),
        (0.03, 0.1, 0.3),
        (0,),
        rounds=30,
        options={"evaluate_samples": 5000},
    ),
}


def strategy_of(name: str, experiment: Experiment, federation: Federation) -> Strategy:
    """A method's own strategy, on the options of an experiment."""
    method = METHODS[name]
    if method.strategy == "drawn":
        built = Strategy(tempo.plan, aggregation("mean"), keeps_deadline=True)
    else:
        there = federation.proxy, len(federation.dataset.clients), federation.model_bytes
        built = build_strategy(method.strategy, experiment, *there)
    if method.rule is None:
        return built
    asked = experiment.epochs, experiment.batch_size
    return replace(built, merge=catch_up.lengthened(method.rule, *asked, method.bounded))


@functools.lru_cache(maxsize=1)
def federation_of(benchmark: str, seed: int, data_dir: str | None) -> Federation:
    known = find(benchmark)
    given = known.hyperparameters("paper")
    place = Path(data_dir) if data_dir else None
    dataset = known.load(seed=given.get("data_seed", 0), data_dir=place, options={})
    return federation_from_model(dataset, given["model"], seed)


def run(part: Part, one: Run, **machine: Any) -> dict[str, Any]:
    """Train one method at one step size and seed."""
    name, stragglers, rate, seed = one
    options = {
        "benchmark": part.benchmark,
        "strategies": ("fedavg",),  # whose place the method takes
        "stragglers": (stragglers,),
        "seed": (seed,),
        "rounds": part.rounds,
        "learning_rate": rate,
        **part.options,
        **METHODS[name].options,
        **machine,
    }
    experiment = resolve(options, lambda name, preset: find(name).hyperparameters(preset))
    federation = federation_of(part.benchmark, seed, machine.get("data_dir"))
    began, accuracies, rejected, times = time.perf_counter(), [], 0, 0.0
    with mock.patch.object(Measure, "train", nothing_of_training_data):
        key = RunKey(part.benchmark, name, stragglers, seed)
        strategy = strategy_of(name, experiment, federation)
        for record, _ in simulate_rounds(build_world(federation, experiment, key, strategy)):
            accuracies.append(round(record.test_accuracy or 0.0, 5))
            rejected += record.rejected
            times += record.time
    return {
        "method": name,
        "stragglers": stragglers,
        "learning_rate": rate,
        "seed": seed,
        "final": accuracies[-1],
        "steady": round(sum(accuracies[STEADY - 1 :]) / len(accuracies[STEADY - 1 :]), 5),
        "rejected": rejected,
        "deadlines": round(times, 2),
        "seconds": round(time.perf_counter() - began, 2),
        "rounds": len(accuracies),
    }


def runs_of(part: Part) -> list[Run]:
    """Seed by seed, since a seed's data are loaded once."""
    every = itertools.product(part.seeds, part.stragglers, part.learning_rates, part.methods)
    return [(name, level, rate, seed) for seed, level, rate, name in every]


def key_of(row: Mapping[str, Any]) -> Run:
    return row["method"], row["stragglers"], row["learning_rate"], row["seed"]


def condense(name: str, folder: Path, results: Path) -> Path | None:
    """Write what is done of a part, if anything is: a line per run."""
    part = PARTS[name]
    done = {key_of(row): row for row in lines_of(folder) if row["rounds"] == part.rounds}
    rows = [done[one] for one in runs_of(part) if one in done]
    if not rows:
        return None
    head = {"part": name, "rounds": part.rounds, "missing": len(runs_of(part)) - len(rows)}
    return write(results / f"choosing-steps-{name}.json", head, rows)


def main() -> None:
    parser = options(__doc__, list(PARTS), "choosing-steps")
    parser.add_argument("--methods", default="", help="separated by commas; without: all")
    asked = parser.parse_args()
    part, machine = PARTS[asked.part], machine_of(asked)
    wanted = asked.methods.split(",") if asked.methods else part.methods
    runs = [one for one in runs_of(part) if one[0] in wanted]
    folder = work_off(asked, runs, lambda one: one, key_of, lambda one: run(part, one, **machine))
    print(f"written: {condense(asked.part, folder, asked.results)}", flush=True)


if __name__ == "__main__":
    main()
