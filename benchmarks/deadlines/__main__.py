"""Run the study of deadlines, or a piece of it, with torch and NumPy alone.

    python -m benchmarks.deadlines [--benchmark mnist] [--strategies tempo] [--sends 0.01,0.1]
        [--arms auto,1] [--seeds 0,1] [--out FOLDER] [--results FOLDER] [--data-dir DIR]
        [--device cuda]

Every run is a file of its own, ``FOLDER/BENCHMARK/STRATEGY/SEED/SEND-ARM.json``; one that is there
is left alone, so a killed command goes on with the run that it was at. Pieces may run side by side.
What is done is condensed into ``RESULTS/deadlines-BENCHMARK-STRATEGY.json`` at the end;
``--condense`` does that alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KEPT = ("reached", "target", "passed", "rounds", "tau30", "commit")  # of a run
sys.path.insert(0, str(ROOT / "src"))

import torch  # noqa: E402

from benchmarks.deadlines.runs import arm, over, reference  # noqa: E402
from benchmarks.deadlines.settings import ARMS, FIXED, PARTS, SENDS, STRATEGIES  # noqa: E402
from fedcore.history import environment  # noqa: E402


def done(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a file holds; it is made where it is not there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f"{path.name}.{os.getpid()}")  # pieces side by side may make the same
        half.write_text(json.dumps(make()) + "\n", encoding="utf-8")
        half.replace(path)
        print(f"{path}: done", flush=True)
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def piece(
    out: Path, benchmark: str, strategy: str, seed: int, send: float, name: str, **machine: Any
) -> dict[str, Any]:
    """One run; with a fixed deadline the first link is trained for, and tells of the others."""
    folder = out / benchmark
    fedavg = partial(reference, benchmark, seed, **machine)
    best = done(folder / f"fedavg-{seed}.json", fedavg)["accuracy"]

    def make() -> dict[str, Any]:
        if name in FIXED and send != SENDS[0]:
            first = piece(out, benchmark, strategy, seed, SENDS[0], name, **machine)
            known = over(first, SENDS[0], send, benchmark)
            if known is not None:
                return known
        return arm(benchmark, strategy, seed, send, name, best, **machine)

    return done(folder / strategy / str(seed) / f"{send:g}-{name}.json", make)


def key_of(run: dict[str, Any]) -> tuple[Any, ...]:
    """Its place among the runs of a file."""
    return run["seed"], run["send"], run["arm"]


def condense(benchmark: str, strategy: str, out: Path, results: Path) -> Path:
    """All runs that are done as one file; those that it has and ``out`` does not stay."""
    path = results / f"deadlines-{benchmark}-{strategy}.json"
    runs: dict[tuple[Any, ...], dict[str, Any]] = {}
    if path.exists():
        before = json.loads(path.read_text("utf-8"))
        commit = before["environment"]["commit"]
        runs = {key_of(run): {**run, "commit": run.get("commit", commit)} for run in before["runs"]}
    for made in sorted((out / benchmark / strategy).glob("*/*-*.json")):
        send, _, name = made.stem.partition("-")
        found = json.loads(made.read_text("utf-8"))
        kept = {key: found[key] for key in KEPT}
        if name == "auto":
            kept["deadlines"] = [round(value, 5) for value in found["deadlines"][::5]]
        run = {"seed": int(made.parent.name), "send": float(send), "arm": name, **kept}
        runs[key_of(run)] = run
    content = {
        "benchmark": benchmark,
        "strategy": {"name": strategy, **STRATEGIES[strategy]},
        "environment": environment(),
        "runs": runs,
    }
    lines = ",\n".join(json.dumps(runs[key]) for key in sorted(runs))
    text = json.dumps({**content, "runs": []}, indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace('"runs": []', f'"runs": [\n{lines}\n]') + "\n", encoding="utf-8")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark", choices=list(PARTS), default="synthetic-1-1")
    parser.add_argument("--strategies", help="those of the benchmark, unless given; likewise below")
    parser.add_argument("--sends", default=",".join(f"{send:g}" for send in SENDS))
    parser.add_argument("--arms")
    parser.add_argument("--seeds")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "deadlines")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--data-dir")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=1, help="0: one per core")
    parser.add_argument("--condense", action="store_true", help="run nothing; write the results")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    machine = {"device": asked.device, "threads": asked.threads}
    machine |= {"data_dir": asked.data_dir} if asked.data_dir else {}
    part, sends = PARTS[asked.benchmark], map(float, asked.sends.split(","))
    seeds = map(int, asked.seeds.split(",")) if asked.seeds else part.seeds
    for name in (arms := asked.arms.split(",") if asked.arms else part.arms):
        if name not in ARMS:
            parser.error(f"arm {name!r} is not there; there are {', '.join(ARMS)}")
    strategies = asked.strategies.split(",") if asked.strategies else part.strategies
    places = () if asked.condense else product(seeds, sends, arms, strategies)
    for seed, send, name, strategy in places:
        piece(asked.out, asked.benchmark, strategy, seed, send, name, **machine)
    for strategy in strategies:
        print(f"written: {condense(asked.benchmark, strategy, asked.out, asked.results)}")


if __name__ == "__main__":
    main()
