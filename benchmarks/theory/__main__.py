"""The trade of docs/theory.md: deadlines, coresets, rounds, bound and loss in a fixed time.

    python -m benchmarks.theory [--parts 10,30,50] [--deadlines 0.05] [--l2 0.01] [--out FOLDER]
    python -m benchmarks.theory --page [--out FOLDER]

A part is a deadline, named by the percentage of clients that miss it, or by its length in units of
that of 30 %: below 0.1 a row takes minutes for every hundred rounds. Each has a file of its own in
FOLDER (``runs/theory``); one that is there is left alone, so pieces may run side by side.
``--page`` condenses them into ``benchmarks/results/theory.json`` and ``.md``, and draws
``docs/images/theory.png``. Torch and NumPy alone, but for the picture.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

import fedcore  # noqa: E402
from fedcore.config import Experiment, resolve  # noqa: E402
from fedcore.sim.fleet import Fleet, fleet_of  # noqa: E402
from fedcore.sources.benchmark import find  # noqa: E402
from fedcore.sources.clients import sizes_of  # noqa: E402
from fedcore.theory import Bound, Problem, bound, logistic  # noqa: E402

PARTS = (4, 10, 20, 30, 40, 50, 60, 70, 80, 90)
USUAL = 30  # per cent whose deadline is the unit of time
TIME = 10.0  # in that unit: what every deadline has
PATHS = 3
RESULTS = ROOT / "benchmarks" / "results" / "theory"


def world(level: float, l2: float) -> tuple[Problem, Fleet, Experiment]:
    """Synthetic(1, 1) with a fleet whose deadline ``level`` per cent miss."""
    asked = {"benchmark": "synthetic-1-1", "stragglers": level}
    experiment = resolve(asked, lambda name, preset: find(name).hyperparameters(preset))
    data = find(experiment.benchmark).load(seed=0, data_dir=None, options={}).clients
    fleet = fleet_of(sizes_of(data), experiment, level, 0)
    pairs = (own.take(slice(None)) for own in data.values())
    flat = [(torch.cat([x, torch.ones(len(x), 1)], dim=1), y) for x, y in pairs]
    return logistic(flat, l2), fleet, experiment


def remember(problem: Problem, path: Path) -> None:
    """Solve for everybody's and each client's minimum once; other deadlines have the same."""
    parts = [problem.everybody, *problem.clients]
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save([problem.minimiser(part) for part in parts], path)
    known = dict(zip(map(id, parts), torch.load(path), strict=True))
    problem.minimiser = lambda part: known[id(part)]  # type: ignore[method-assign]


def row_of(found: Bound, deadline: float) -> dict[str, Any]:
    """What a table and the picture need."""
    of = found.corrected
    return {
        "deadline": deadline,
        "rounds": len(found.distance) - 1,
        "error": of.error,
        "largest_error": found.paper.error,
        "gradient": of.gradient,
        "distance": found.distance.mean(1).tolist(),
        "gap": found.gap.mean(1).tolist(),
        "constants": of._asdict(),
        "budgets": [min(own) for own in found.budgets],
    }


def run_part(level: float, l2: float, out: Path, length: float | None = None) -> None:
    """One deadline, or nothing if its file is there."""
    path = out / f"l2-{l2:g}-{f'{level:g}' if length is None else f'at-{length:g}'}.json"
    if path.exists():
        return
    began = time.perf_counter()
    problem, fleet, asked = world(level, l2)
    unit = world(USUAL, l2)[1].deadline
    if length is not None:
        fleet = replace(fleet, deadline=length * unit)
        every = fleet.profiles.values()
        late = [one.seconds(asked.epochs * one.num_samples) > fleet.deadline for one in every]
        level = 100 * sum(late) / len(late)
    remember(problem, out / f"minima-{l2:g}.pt")
    rounds = max(int(TIME * unit / fleet.deadline + 1e-9), 1)
    speeds = [client.capability for client in fleet.profiles.values()]
    of = {"epochs": asked.epochs, "clients_per_round": asked.clients_per_round, "paths": PATHS}
    found = bound(problem, speeds, fleet.deadline, rounds=rounds, **of)
    row = row_of(found, fleet.deadline / unit)
    row["sizes"] = [len(part.inputs) for part in problem.clients]
    row["stragglers"], row["l2"] = level, l2
    path.write_text(json.dumps(row))
    print(f"{level:g} %: {rounds} rounds in {time.perf_counter() - began:.0f} s", flush=True)


def advised() -> float:
    """The deadline of ``fedcore advise`` in the same unit, for mini-batches and without links."""
    return float(
        fedcore.advise("synthetic-1-1", budget=15).best.deadline / world(USUAL, 1)[1].deadline
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default=",".join(map(str, PARTS)))
    parser.add_argument("--deadlines", default="", help="in units of that of 30 %%, in their place")
    parser.add_argument("--l2", type=float, default=0.01)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "theory")
    parser.add_argument("--page", action="store_true", help="run nothing; write the results")
    asked = parser.parse_args()
    if asked.page:
        from benchmarks.theory.page import write_page

        write_page(asked.out, RESULTS, ROOT / "docs" / "images" / "theory.png", advised())
        return
    for length in filter(None, asked.deadlines.split(",")):
        run_part(USUAL, asked.l2, asked.out, float(length))
    for level in asked.parts.split(",") if not asked.deadlines else ():
        run_part(float(level), asked.l2, asked.out)


if __name__ == "__main__":
    main()
