"""How cost grows with cohort and fleet: ``python -m benchmarks.simulator.growth [--quick]``.

Seconds per round and peak additional memory of ``fedcore.simulate`` on clients that are generated
when asked for, against the size of the cohort (in one fleet) and against the size of the fleet
(with one cohort). Every point is a process of its own, which first runs a small simulation, so
that compiled code and libraries are not counted. Evaluation is on 1,000 samples drawn once; what
one evaluation on every sample of the fleet takes is measured apart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fedcore
from benchmarks.simulator.machine import describe
from fedcore import plugins
from fedcore.seeding import stream
from fedcore.sim.measure import Evaluator
from fedcore.task import Task

RESULTS = Path(__file__).parents[1] / "results"
COHORTS = (10, 30, 100, 300, 1000)
FLEETS = (30, 100, 1000, 10_000, 100_000)
FLEET, COHORT = 10_000, 10  # of the other sweep
STRATEGIES = ("fedavg", "fedcore")
SAMPLES, FEATURES, CLASSES = 100, 60, 10  # of each client, on average
ROUNDS, EPOCHS = 6, 10
EVALUATED = 1000


@dataclass(frozen=True, slots=True)
class Point:
    """What one process measured."""

    strategy: str
    fleet: int
    cohort: int
    preparation_seconds: float  # before the first round and in it, beyond a round's length
    round_seconds: float  # the median after the first round
    peak_megabytes: float  # beyond what was used before the fleet was made
    cohort_megabytes: float  # samples of the clients of a round
    fleet_megabytes: float  # what the samples of all clients would take
    evaluation_seconds: float | None = None  # of all samples of the fleet, once


def clients_of(fleet: int) -> fedcore.LazyClients:
    """Clients of 50 to 150 samples around a centre of their own, by the seed of their number."""
    sizes = stream(0, "growth", "sizes").integers(SAMPLES // 2, 3 * SAMPLES // 2, fleet)
    teacher = stream(0, "growth", "teacher").normal(size=(FEATURES, CLASSES)).astype(np.float32)

    def load(client: int) -> fedcore.ClientData:
        draw = stream(0, "growth", client)
        x = draw.standard_normal((int(sizes[client]), FEATURES), np.float32)
        x += draw.standard_normal(FEATURES, np.float32)
        return fedcore.ClientData(torch.from_numpy(x), torch.from_numpy((x @ teacher).argmax(1)))

    return fedcore.LazyClients(sizes, load)


def simulate(strategy: str, fleet: int, cohort: int, rounds: int) -> list[float]:
    """Seconds of every round; the first includes all preparation."""
    marks = [time.perf_counter()]
    clients = clients_of(fleet)
    fedcore.simulate(
        clients,
        plugins.load("model", "logistic").build(torch.zeros(FEATURES), CLASSES),
        strategy=strategy,
        on_round=lambda record: marks.append(time.perf_counter()),
        rounds=rounds,
        epochs=EPOCHS,
        clients_per_round=cohort,
        selection="uniform",
        learning_rate=0.001,
        evaluate_samples=EVALUATED,
        device="cpu",
    )
    return np.diff(marks).tolist()


def memory(field: str) -> float:
    """Megabytes of this process: VmRSS is now, VmHWM the most since ``forget_peak``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def measure(strategy: str, fleet: int, cohort: int, *, evaluation: bool) -> Point:
    """One point, in this process."""
    torch.set_num_threads(1)  # as the command does: clients run side by side instead
    simulate(strategy, 30, 10, 2)
    forget_peak()
    before = memory("VmRSS")
    first, *later = simulate(strategy, fleet, cohort, ROUNDS)
    peak = memory("VmHWM") - before
    middle = float(np.median(later))
    size = SAMPLES * (FEATURES * 4 + 8) / 2**20
    return Point(
        strategy,
        fleet,
        cohort,
        preparation_seconds=round(max(0.0, first - middle), 3),
        round_seconds=round(middle, 5),
        peak_megabytes=round(peak, 1),
        cohort_megabytes=round(cohort * size, 2),
        fleet_megabytes=round(fleet * size, 2),
        evaluation_seconds=round(evaluation_of(fleet), 3) if evaluation else None,
    )


def evaluation_of(fleet: int) -> float:
    task = Task(plugins.load("model", "logistic").build(torch.zeros(FEATURES), CLASSES))
    begin = time.perf_counter()
    Evaluator([task.logits]).score(task.initial_params(), clients_of(fleet).values())
    return time.perf_counter() - begin


def in_a_process(strategy: str, fleet: int, cohort: int, *, evaluation: bool) -> dict[str, Any]:
    """The same in a process of its own: memory that one point leaves is not the next one's."""
    point = f"{strategy},{fleet},{cohort},{int(evaluation)}"
    command = [sys.executable, "-m", "benchmarks.simulator.growth", "--point", point]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    sys.stderr.write(done.stdout)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def best(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of several measurements of one point the fastest round and the largest peak."""
    fastest = min(points, key=lambda point: point["round_seconds"])
    looks = [p["evaluation_seconds"] for p in points if p["evaluation_seconds"] is not None]
    return fastest | {
        "peak_megabytes": max(point["peak_megabytes"] for point in points),
        "evaluation_seconds": min(looks, default=None),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one turn, up to 1,000 clients")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.point:
        strategy, fleet, cohort, evaluation = options.point.split(",")
        found = measure(strategy, int(fleet), int(cohort), evaluation=bool(int(evaluation)))
        sys.stdout.write(json.dumps(asdict(found)) + "\n")
        return
    begin = time.perf_counter()
    turns = 1 if options.quick else options.turns
    most = 1000 if options.quick else max(FLEETS)
    report: dict[str, Any] = {"machine": describe(torch.device("cpu")), "turns": turns}
    sweeps = {
        "cohort": [(min(FLEET, most), cohort) for cohort in COHORTS],
        "fleet": [(fleet, COHORT) for fleet in FLEETS if fleet <= most],
    }
    for name, sizes in sweeps.items():
        # In turns: what comes and goes on the machine meets all points.
        taken = [
            [
                in_a_process(s, *size, evaluation=name == "fleet" and (turn, s) == (0, "fedavg"))
                for s in STRATEGIES
                for size in sizes
            ]
            for turn in range(turns)
        ]
        report[name] = [best(points) for points in zip(*taken, strict=True)]
    report["load after"] = round(os.getloadavg()[0], 2)
    report["minutes"] = round((time.perf_counter() - begin) / 60, 1)
    path = RESULTS / ("growth-quick.json" if options.quick else "growth.json")
    path.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
