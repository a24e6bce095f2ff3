"""Ten fleets that nobody tuned on: what is predicted, and what runs then need.

    python -m benchmarks.advise [--part 0,1,2,...,size] [--out FOLDER] [--results FOLDER]

With torch and NumPy alone. Every part leaves one file in FOLDER; one that is there is left alone,
so that parts may run side by side and go on. What is done is gathered in RESULTS/advise.json, and
the table of docs/advise.md is made of that. ``size`` times an answer for 1,000 clients.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

import torch  # noqa: E402

from benchmarks.advise.page import renew  # noqa: E402
from fedcore import advise  # noqa: E402
from fedcore.cli.advise import ADVISED  # noqa: E402
from fedcore.config import Experiment, resolve  # noqa: E402
from fedcore.records import RunKey  # noqa: E402
from fedcore.sim.federation import Federation, federation_from_model  # noqa: E402
from fedcore.sim.fleet import fleet_of  # noqa: E402
from fedcore.sim.world import build_strategy, build_world, simulate_rounds  # noqa: E402
from fedcore.sources.benchmark import find  # noqa: E402
from fedcore.sources.clients import sizes_of  # noqa: E402

SHARE = 0.95  # of FedAvg's accuracy after its rounds: the target
STRAGGLERS = 30.0
RUNS = 3  # that are asked how long they need; the first is the one that counts
MOST_ROUNDS = 3000


@dataclass(frozen=True)
class Case:
    """A benchmark, a fleet, and how long sending takes, in deadlines at 30 % (0: phones' own)."""

    benchmark: str
    fleet: str
    sending: float
    seed: int  # of the fleet and of the trials; those of the runs begin at 100 more


CASES = [
    Case("synthetic-0-0", "normal", 0.01, 1001),
    Case("synthetic-0-0", "normal", 1.0, 1002),
    Case("synthetic-0-0", "phones", 0.0, 1003),
    Case("synthetic-0.5-0.5", "normal", 0.1, 1004),
    Case("synthetic-0.5-0.5", "normal", 1.0, 1005),
    Case("synthetic-0.5-0.5", "phones", 0.0, 1006),
    Case("synthetic-1-1", "normal", 0.01, 1007),
    Case("synthetic-1-1", "normal", 0.1, 1008),
    Case("synthetic-1-1", "normal", 1.0, 1009),
    Case("synthetic-1-1", "phones", 0.0, 1010),
]


def experiment_of(case: Case, **more: Any) -> Experiment:
    given = {"benchmark": case.benchmark, "capability": case.fleet, "seed": case.seed, **more}
    return resolve(given, lambda name, preset: find(name).hyperparameters(preset))


def federation_of(experiment: Experiment, seed: int) -> Federation:
    load = find(experiment.benchmark).load
    dataset = load(seed=experiment.data_seed, data_dir=None, options=experiment.data)
    return federation_from_model(dataset, experiment.model, seed)


def write_fleet(case: Case, path: Path) -> float:
    """The case's fleet as a file, so that trials and runs have the same; gives tau30."""
    experiment = experiment_of(case, stragglers=STRAGGLERS)
    federation = federation_of(experiment, 0)
    sizes = sizes_of(federation.dataset.clients)
    fleet = fleet_of(sizes, experiment, STRAGGLERS, case.seed)
    lines = ["client,samples_per_second,download,upload"]
    for client, one in fleet.profiles.items():
        links = one.download, one.upload
        if case.sending:
            links = (2 * federation.model_bytes / (case.sending * fleet.deadline),) * 2
        lines.append(",".join(map(repr, (client, one.capability, *links))))
    path.write_text("\n".join(lines) + "\n")
    return fleet.deadline


def accuracies(
    experiment: Experiment, seed: int, until: float = math.inf
) -> tuple[list[float], float]:
    """Of rounds up to an accuracy, and the seconds they took."""
    federation, name = federation_of(experiment, seed), experiment.strategies[0]
    strategy = build_strategy(name, experiment, federation.proxy)
    world = build_world(federation, experiment, RunKey("", name, STRAGGLERS, seed), strategy)
    seen, passed = [], 0.0
    with closing(simulate_rounds(world)) as rounds:
        for record, _ in rounds:
            seen.append(record.test_accuracy or 0.0)
            passed += record.seconds
            if seen[-1] >= until:
                break
    return seen, passed


def tried(number: int, out: Path) -> dict[str, Any]:
    """Advice for a case, and what runs at that deadline then need."""
    case, fleet = CASES[number], out / f"fleet-{number}.csv"
    unit = write_fleet(case, fleet)
    first = case.seed + 100
    known: dict[str, Any] = {"speeds": str(fleet)}
    fedavg = experiment_of(case, strategies="fedavg", stragglers=STRAGGLERS, **known)
    target = SHARE * accuracies(fedavg, first)[0][-1]
    began, cpu = time.perf_counter(), time.process_time()
    advice = advise(case.benchmark, targets=target, seed=case.seed, **known)
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    best = advice.best
    own = {**ADVISED, **known, "stragglers": (), "rounds": MOST_ROUNDS}
    needed = []
    for seed in range(first, first + RUNS):
        run = experiment_of(case, **own, deadline=best.deadline)
        seen, passed = accuracies(run, seed, target)
        needed.append({"seconds": passed if seen[-1] >= target else None, "rounds": len(seen)})
    names = ("of_tau", "time", "within", "tried", "rounds_per_hour")
    rows = [{name: getattr(one, name) for name in names} for one in advice.outlooks]
    return {
        "case": vars(case), "tau30": unit, "target": target, "of_tau": best.of_tau,
        "deadline": best.deadline, "predicted": best.time, "within": best.within,
        "needed": needed, "deadlines": rows, "wall seconds": wall, "cpu seconds": cpu,
    }  # fmt: skip


def timed() -> dict[str, Any]:
    """An answer for 1,000 clients, data and all."""
    began, cpu = time.perf_counter(), time.process_time()
    advice = advise("synthetic-1-1", data={"clients": 1000})
    found = {"seconds": time.perf_counter() - began, "cpu seconds": time.process_time() - cpu}
    return {"clients": 1000, **found, "cores": os.cpu_count(), "advice": str(advice)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    every = [*map(str, range(len(CASES))), "size"]
    parser.add_argument("--part", default=",".join(every))
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "advise")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    asked.out.mkdir(parents=True, exist_ok=True)
    for part in asked.part.split(","):
        path = asked.out / f"part-{part}.json"
        if part not in every:
            parser.error(f"part {part!r} is none of {', '.join(every)}")
        if not path.exists():
            found = timed() if part == "size" else tried(int(part), asked.out)
            path.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{part}: {path}", flush=True)
    done = {p: json.loads((asked.out / f"part-{p}.json").read_text())
            for p in every if (asked.out / f"part-{p}.json").exists()}  # fmt: skip
    if len(done) == len(every):
        asked.results.mkdir(exist_ok=True)
        text = json.dumps({"cases": [done[p] for p in every[:-1]], "size": done["size"]}, indent=1)
        (asked.results / "advise.json").write_text(text + "\n")
        renew(asked.results / "advise.json", ROOT / "docs" / "advise.md")


if __name__ == "__main__":
    main()
