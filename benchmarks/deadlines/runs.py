"""One run of the study: until the target is reached, or its time is up."""

from __future__ import annotations

import dataclasses
import math
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.deadlines.settings import (
    FIXED,
    PARTS,
    REACHED,
    REFERENCE_ROUNDS,
    experiment_of,
)
from benchmarks.paper.table2 import pieces
from benchmarks.stragglers.__main__ import nothing_of_training_data
from fedcore.history import environment
from fedcore.records import RunKey
from fedcore.sim.federation import Federation, federation_from_model
from fedcore.sim.fleet import fleet_of
from fedcore.sim.measure import Measure
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.sources.benchmark import find
from fedcore.sources.clients import sizes_of

POINTS = 400  # of a run's curve and of its deadlines, at most


@cache
def federation_of(benchmark: str, seed: int, data_dir: str | None) -> Federation:
    """Data and initial model."""
    experiment = experiment_of(benchmark, seed, "fedavg")
    place = None if data_dir is None else Path(data_dir)
    dataset = find(benchmark).load(seed=experiment.data_seed, data_dir=place, options={})
    return federation_from_model(dataset, experiment.model, seed=seed)


def tau30(benchmark: str, seed: int, federation: Federation) -> float:
    """Seconds of the deadline at 30 % stragglers, of compute alone."""
    sizes = sizes_of(federation.dataset.clients)
    return fleet_of(sizes, experiment_of(benchmark, seed, "fedavg"), 30.0, seed).deadline


def reference(benchmark: str, seed: int, **machine: Any) -> dict[str, Any]:
    """FedAvg without a deadline: its accuracy after 100 rounds, from Table 2 where that has it."""
    only = PARTS[benchmark].target_of
    seed = seed if only is None else only
    for piece in pieces(way="paper", benchmark=benchmark, strategy="fedavg", seed=seed):
        if piece["rounds"] == REFERENCE_ROUNDS:
            return {"accuracy": piece["final_test_accuracy"]}
    federation = federation_of(benchmark, seed, machine.get("data_dir"))
    own = {"rounds": REFERENCE_ROUNDS, **machine}
    found = _run(benchmark, seed, federation, "fedavg", 2.0, float("inf"), **own)
    return {**found, "accuracy": found["curve"][-1][1]}


def arm(
    benchmark: str,
    strategy: str,
    seed: int,
    send: float,
    name: str,
    accuracy: float,
    **machine: Any,
) -> dict[str, Any]:
    """One arm with one link, until it has 95 % of FedAvg's ``accuracy``."""
    federation = federation_of(benchmark, seed, machine.get("data_dir"))
    unit = tau30(benchmark, seed, federation)
    link = 2 * federation.model_bytes / (send * unit)
    own: dict[str, Any] = {"download": link, "upload": link, "rounds": 10**6, "deadline": name}
    if name in FIXED:
        own |= {"deadline": (send + FIXED[name]) * unit, "stragglers": ()}
    longest = PARTS[benchmark].longest * (1 + send) * unit
    target = REACHED * accuracy
    return _run(benchmark, seed, federation, strategy, target, longest, **own, **machine)


def over(
    found: dict[str, Any], before: float, send: float, benchmark: str
) -> dict[str, Any] | None:
    """What a run with a fixed deadline comes to where sending takes ``send`` instead.

    Links are equal and deadlines longer by what sending takes, so clients do the same work: every
    round is longer by the difference. None where it ended ``before`` it reached the target.
    """
    if found["reached"] is None:
        return None
    passed = found["passed"] + found["rounds"] * (send - before)
    each, longest = passed / found["rounds"], PARTS[benchmark].longest * (1 + send)
    if passed - each < longest:  # a round that has begun by then is finished
        return {**found, "reached": passed, "passed": passed}
    rounds = math.ceil(longest / each)
    return {**found, "reached": None, "rounds": rounds, "passed": rounds * each}


def _run(
    benchmark: str,
    seed: int,
    federation: Federation,
    strategy: str,
    target: float,
    longest: float,
    **own: Any,
) -> dict[str, Any]:
    experiment = experiment_of(benchmark, seed, strategy, **own)
    there = (federation.proxy, len(federation.dataset.clients), federation.model_bytes)
    built = build_strategy(strategy, experiment, *there)
    run = RunKey(benchmark, strategy, 30.0, seed)
    unit, began = tau30(benchmark, seed, federation), time.process_time()
    passed, reached = 0.0, None
    curve, deadlines = [], []
    with mock.patch.object(Measure, "train", nothing_of_training_data):
        world = build_world(federation, experiment, run, built)
        with closing(simulate_rounds(world)) as rounds:
            for record, _ in rounds:
                passed += record.seconds
                curve.append([passed / unit, record.test_accuracy])
                deadlines.append((record.allowed or record.deadline) / unit)
                if (record.test_accuracy or 0.0) >= target:
                    reached = passed / unit
                    break
                if passed >= longest:
                    break
    return {
        "reached": reached,
        "target": target,
        "passed": passed / unit,
        "rounds": len(curve),
        "tau30": unit,
        "curve": _thinned(curve),
        "deadlines": _thinned(deadlines),
        "cpu_seconds": round(time.process_time() - began, 1),
        "commit": environment()["commit"],
        "options": {k: v for k, v in dataclasses.asdict(experiment).items() if k in own},
    }


def _thinned(values: list[Any]) -> list[Any]:
    """At most so many of them, the last one with them."""
    step = 1 + (len(values) - 1) // POINTS
    return values[:-1:step] + values[-1:]
