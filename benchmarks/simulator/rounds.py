"""Where the real time of whole FedCore rounds goes: ``python -m benchmarks.simulator.rounds``.

    python -m benchmarks.simulator.rounds [--device cuda] [--data-dir DIR] [--only NAMES]

Rounds of the preset ``paper`` with 30 % stragglers: Synthetic(1, 1), MNIST with the CNN,
Shakespeare with the LSTM; fewer rounds, and of the last fewer clients and epochs, where a CPU
would take too long, which makes the share of everything but training larger. Every round
says how long it trained, how long it stood still for coresets (and what cores spent on them), how
long it evaluated on training and test data, and what is left. For the logistic model, and for a
perceptron of 32 hidden units under FedAvg, also whole rounds, evaluation included, against the
plain loop: clients one after another, then every client's data evaluated one after another. ``--add
perceptron`` measures that alone. Files are looked for as ``fedcore compare`` does.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.simulator.machine import describe
from benchmarks.simulator.workload import perceptron
from fedcore import select_coreset
from fedcore.client.executors.by_name import choose_device
from fedcore.config import Experiment, resolve
from fedcore.records import RoundRecord, RunKey
from fedcore.sim.federation import Federation, federate, federation_from_model
from fedcore.sim.measure import Evaluator
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.sources import benchmark as _benchmark
from fedcore.types import Params

RESULTS = Path(__file__).parents[1] / "results"
STRAGGLERS = 30.0
# Whole rounds on a CPU: the strategy, how many, and how many times faster than the plain loop
AGAINST = {
    "against the plain loop": ("fedcore", 12, 20.0),
    "perceptron against the plain loop": ("fedavg", 5, 10.0),
}
REHEARSED = ("synthetic-1-1",)  # run once unseen: what it compiles would be most of its few seconds
JOBS: dict[str, dict[str, dict[str, Any]]] = {
    "cpu": {
        "synthetic-1-1": {"rounds": 100},
        "mnist": {"rounds": 1},
        "shakespeare": {"rounds": 1, "clients_per_round": 5, "epochs": 2},
    },
    "cuda": {
        "synthetic-1-1": {"rounds": 100},
        "mnist": {"rounds": 5},
        "shakespeare": {"rounds": 2},
    },
}


def prepared(
    name: str, device: torch.device, data_dir: Path | None, options: dict[str, Any]
) -> tuple[Experiment, Federation]:
    experiment = resolve(
        {"benchmark": name, "device": device.type, **options},
        lambda benchmark, preset: _benchmark.find(benchmark).hyperparameters(preset),
    )
    found = _benchmark.find(name)
    dataset = found.load(seed=experiment.data_seed, data_dir=data_dir, options={})
    return experiment, federation_from_model(dataset, experiment.model, 0)


def rounds_of(
    experiment: Experiment, federation: Federation, name: str = "fedcore"
) -> Iterator[tuple[RoundRecord, Params]]:
    strategy = build_strategy(name, experiment, federation.proxy)
    key = RunKey(experiment.benchmark, name, STRAGGLERS, 0)
    world = build_world(federation, experiment, key, strategy)
    return ((record, state.params) for record, state in simulate_rounds(world))


def parts_of(record: RoundRecord) -> dict[str, float]:
    """Seconds of a round; the first four are all of it, selection work runs beside them."""
    training = record.training_seconds - record.waited_seconds
    rest = record.wall_seconds - record.training_seconds - record.evaluation_seconds
    parts = {
        "training": training,
        "waited for selection": record.waited_seconds,
        "evaluation": record.evaluation_seconds,
        "rest": rest,
        "round": record.wall_seconds,
        "selection work": record.selection_seconds,
    }
    return {name: round(seconds, 5) for name, seconds in parts.items()}


def measure(name: str, device: torch.device, data_dir: Path | None) -> dict[str, Any]:
    experiment, federation = prepared(name, device, data_dir, JOBS[device.type][name])
    if name in REHEARSED:
        for _ in rounds_of(experiment, federation):
            pass
    rows, coresets = [], 0
    for record, _ in rounds_of(experiment, federation):
        rows.append(parts_of(record))
        coresets += sum(client.coreset_size is not None for client in record.clients)
        if len(rows) <= 5 or len(rows) % 20 == 0:
            say(f"{name}, round {record.number}: {rows[-1]}")
    test = federation.dataset.test
    limit = experiment.evaluate_samples
    sizes = [
        sum(len(data) for data in federation.dataset.clients.values()),
        0 if test is None else len(test),
    ]
    waits = [row["waited for selection"] / row["round"] for row in rows]
    return {
        "benchmark": name,
        "model": experiment.model,
        "clients a round": experiment.clients_per_round,
        "epochs": experiment.epochs,
        "coresets": coresets,
        "evaluated on": [min(limit, size) if limit else size for size in sizes],
        "mean": {key: round(statistics.fmean(r[key] for r in rows), 5) for key in rows[0]},
        "waited share of a median round": round(statistics.median(waits), 4),
        "rounds": rows,
    }


def against_plain(data_dir: Path | None, what: str) -> dict[str, Any]:
    """Whole rounds of both, in turns; the same cohorts, the same coresets."""
    torch.set_num_threads(1)  # the better number for steps this small
    strategy, rounds, target = AGAINST[what]
    options = {"rounds": rounds}
    experiment, federation = prepared("synthetic-1-1", torch.device("cpu"), data_dir, options)
    if what.startswith("perceptron"):
        torch.manual_seed(0)
        federation = federate(federation.dataset, perceptron(60, 10))
    for _ in zip(range(2), rounds_of(experiment, federation, strategy), strict=False):
        pass  # what is compiled or loaded once
    plain = dataclasses.replace(experiment, executor="sequential")
    both = [rounds_of(own, federation, strategy) for own in (experiment, plain)]
    mine, theirs, my_cores, their_cores = [], [], [], []
    difference = 0.0
    for _ in range(rounds):
        marks = [time.process_time()]
        own, own_model = next(both[0])
        marks.append(time.process_time())
        other, other_model = next(both[1])
        evaluation = plain_evaluation(federation, other_model)
        marks.append(time.process_time())
        mine.append(own.wall_seconds)
        theirs.append(other.wall_seconds - other.evaluation_seconds + evaluation)
        my_cores.append(marks[1] - marks[0])
        their_cores.append(marks[2] - marks[1] - other.evaluation_seconds)
        difference = max(float((own_model[n] - other_model[n]).abs().max()) for n in own_model)
    ratios = [slow / fast for slow, fast in zip(theirs, mine, strict=True)]
    return {
        "rounds": rounds,
        "strategy": strategy,
        "plain, median round": round(statistics.median(theirs), 5),
        "ours, median round": round(statistics.median(mine), 5),
        "times faster": round(statistics.median(ratios), 1),
        "times faster, all rounds": round(sum(theirs) / sum(mine), 2),
        "times less of cores": round(sum(their_cores) / sum(my_cores), 1),
        "target": target,
        "largest difference": float(f"{difference:.1e}"),
    }


def plain_evaluation(federation: Federation, params: Params) -> float:
    """Seconds to evaluate one client after another, as the authors' code does, then the test."""
    began, plain = time.perf_counter(), Evaluator([federation.task.logits])
    for data in federation.dataset.clients.values():
        plain.score(params, [data])
    if federation.dataset.test is not None:
        plain.score(params, [federation.dataset.test])
    return time.perf_counter() - began


def warm() -> None:
    """Compile or load all of the solver before anything is timed: small, large, few medoids."""
    draw = torch.Generator().manual_seed(0)
    for size, budget, width in ((200, 40, 10), (2000, 400, 10), (5000, 70, 60), (12000, 250, 10)):
        select_coreset(torch.randn(size, width, generator=draw), budget, seed=0)


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--only", default="", help="some benchmarks; writes no file")
    parser.add_argument("--add", choices=("perceptron",), help="that alone, into the results")
    options = parser.parse_args()
    device = choose_device(options.device, "auto")
    chosen = options.only.split(",") if options.only else list(JOBS[device.type])
    report: dict[str, Any] = {"machine": describe(device), "stragglers": STRAGGLERS}
    warm()
    if options.add:
        path, what = RESULTS / "rounds-cpu.json", f"{options.add} against the plain loop"
        load = {"load before": report["machine"]["load before"]}
        found = json.loads(path.read_text()) | {what: against_plain(options.data_dir, what) | load}
        benchmarks = found.pop("benchmarks")  # which stand last
        path.write_text(json.dumps(found | {"benchmarks": benchmarks}, indent=1) + "\n")
        return
    if device.type == "cpu" and "synthetic-1-1" in chosen:
        for what in AGAINST:
            report[what] = against_plain(options.data_dir, what)
            say(f"{what}: {json.dumps(report[what], indent=1)}")
    report["benchmarks"] = [measure(name, device, options.data_dir) for name in chosen]
    text = json.dumps(report, indent=1) + "\n"
    if not options.only:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"rounds-{device.type}.json").write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
