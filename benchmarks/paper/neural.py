"""MNIST and Shakespeare as in the paper's Table 2, reduced, with torch and NumPy alone.

    python -m benchmarks.paper.neural mnist --data-dir DIR [--device cuda] [--runs DIR]

Meant for an accelerator machine that can install nothing; everywhere else ``fedcore compare`` does
the same with tables and pictures. Every job is a folder as that command writes it, goes on where it
was interrupted, and is not run again once it is done. The results go to
``benchmarks/results/NAME.json``; those of jobs that were not asked for stay as they are there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

from benchmarks.paper.synthetic import KEPT  # noqa: E402
from fedcore.cli.grid import run_grid  # noqa: E402
from fedcore.config import resolve  # noqa: E402
from fedcore.records import RoundRecord, RunKey  # noqa: E402
from fedcore.sources import benchmark as _benchmark  # noqa: E402

_MNIST = {"benchmark": "mnist", "rounds": 30, "evaluate_samples": 10000}
_CORE = {"strategies": "fedcore", "stragglers": 30}
_SHAKESPEARE = {
    "benchmark": "shakespeare",
    "rounds": 30,
    "selection": "uniform",
    "evaluate_samples": 10000,
    "stragglers": 30,
}
_TEXT = {**_SHAKESPEARE, "strategies": "fedcore"}
_HALF = {**_TEXT, "rounds": 15}
_CAUGHT_UP = {"catch_up": 10}
_FEW = {"coreset_epochs": 1}
_AGAIN = {"seed": 1}
_LINKED = {"capability": "size-linked", "capability_std": 0.25}  # as the authors' code has it
JOBS: dict[str, dict[str, dict[str, Any]]] = {
    "mnist": {
        "core": {**_MNIST, **_CORE},
        "random": {**_MNIST, **_CORE, "below_one_pass": "random"},
        "others": {**_MNIST, "stragglers": 30, "strategies": "fedavg-ds,fedprox"},
        "static": {**_MNIST, **_CORE, "below_one_pass": "static-coreset"},
        "normalised": {
            **_MNIST,
            **_CORE,
            "below_one_pass": "random",
            "weighting": "normalised",
        },
        "proportional": {
            **_MNIST,
            **_CORE,
            "below_one_pass": "random",
            "weighting": "proportional",
        },
        "few-epochs": {**_MNIST, **_CORE, **_FEW},
        "few-epochs-catch-up": {**_MNIST, **_CORE, **_FEW, "catch_up": 3},
        "core-catch-up": {**_MNIST, **_CORE, "catch_up": 3},
        "prox-catch-up": {**_MNIST, "strategies": "fedprox", "stragglers": 30, "catch_up": 3},
        "few-epochs-uniform-catch-up": {
            **_MNIST,
            **_CORE,
            **_FEW,
            "selector": "uniform",
            "catch_up": 3,
        },
        "exact": {**_MNIST, **_CORE, "below_one_pass": "random", "gradients": "exact"},
        "ten": {**_MNIST, "stragglers": 10, "strategies": "fedavg-ds,fedprox,fedcore"},
        "avg": {**_MNIST, "stragglers": 30, "strategies": "fedavg"},
    },
    "shakespeare": {
        "avg": {**_SHAKESPEARE, "strategies": "fedavg"},
        "core": _TEXT,
        "core-catch-up": {**_TEXT, **_CAUGHT_UP},
        "prox": {**_SHAKESPEARE, "strategies": "fedprox"},
        "dropping": {**_SHAKESPEARE, "strategies": "fedavg-ds", "rounds": 20},
        "prox-catch-up": {**_SHAKESPEARE, "strategies": "fedprox", **_CAUGHT_UP},
        "uniform-catch-up": {**_TEXT, "selector": "uniform", **_CAUGHT_UP},
        "few-epochs": {**_TEXT, **_FEW},
        "few-epochs-catch-up": {**_TEXT, **_FEW, **_CAUGHT_UP},
        "few-epochs-uniform-catch-up": {**_TEXT, **_FEW, "selector": "uniform", **_CAUGHT_UP},
        "linked": {**_TEXT, **_LINKED},
        "linked-catch-up": {**_TEXT, **_LINKED, **_CAUGHT_UP},
        "linked-few-epochs-catch-up": {**_TEXT, **_FEW, **_LINKED, **_CAUGHT_UP},
        "again-few-epochs-catch-up": {**_TEXT, **_FEW, **_CAUGHT_UP, **_AGAIN},
        "again-few-epochs-uniform-catch-up": {
            **_TEXT,
            **_FEW,
            "selector": "uniform",
            **_CAUGHT_UP,
            **_AGAIN,
        },
        "again-prox-catch-up": {
            **_SHAKESPEARE,
            "strategies": "fedprox",
            **_CAUGHT_UP,
            **_AGAIN,
        },
        "uniform": {**_HALF, "selector": "uniform"},
        "exact-pass": {**_HALF, "gradients": "exact"},
    },
}


def run(job: str, options: dict[str, Any], out: Path) -> list[dict[str, Any]]:
    """One job, or what is left of it."""
    experiment = resolve(
        options, lambda name, preset: _benchmark.find(name).hyperparameters(preset)
    )
    began = time.perf_counter()

    def tell(key: RunKey, done: int, share: float) -> None:
        if done % 10 == 0 or done == experiment.rounds:
            elapsed = time.perf_counter() - began
            print(f"{elapsed:7.1f} s {job}: {key.strategy}, round {done}", flush=True)

    content, runs = run_grid(experiment, out, resume=(out / "experiment.json").exists(), tell=tell)
    results = []
    for result in content["results"]:
        own = next(rounds for key, rounds in runs.items() if key.strategy == result["strategy"])
        results.append(
            {
                **{name: result[name] for name in KEPT},
                "wall_seconds": result["wall_seconds"],
                "paths": paths_of(own),
                "round_times": [round(record.time, 3) for record in own],
                "test_accuracies": [round(record.test_accuracy or 0.0, 4) for record in own],
            }
        )
        print(job, json.dumps({k: results[-1][k] for k in KEPT}), flush=True)
    return results


def paths_of(rounds: Sequence[RoundRecord]) -> dict[str, int]:
    """How many clients went which way, over all rounds."""
    return dict(Counter(str(client.path) for record in rounds for client in record.clients))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(JOBS))
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "paper")
    parser.add_argument("--machine", default="", help="a word on what it ran on")
    parser.add_argument("--only", default="", help="some of the jobs, separated by commas")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",") if arguments.only else list(JOBS[arguments.name])
    where = {"data_dir": arguments.data_dir, "device": arguments.device}
    results = {}
    for job in chosen:
        options = {**JOBS[arguments.name][job], **where}
        results[job] = run(job, options, arguments.runs / arguments.name / job)
    target = ROOT / "benchmarks" / "results" / f"{arguments.name}.json"
    content = merged(arguments.name, target, results)
    content["machine"] = arguments.machine or content["machine"]
    target.write_text(json.dumps(content, indent=1) + "\n")


def merged(name: str, target: Path, results: dict[str, Any]) -> dict[str, Any]:
    """What the file is to hold: new results, and old ones of jobs that are still the same."""
    known = json.loads(target.read_text()) if target.exists() else {"jobs": {}, "results": {}}
    kept = {
        job: known["results"][job]
        for job, options in JOBS[name].items()
        if known["jobs"].get(job) == options
    }
    found = {**kept, **results}
    jobs = {job: options for job, options in JOBS[name].items() if job in found}
    return {
        "command": f"python -m benchmarks.paper.neural {name}",
        "machine": known.get("machine", ""),
        "jobs": jobs,
        "results": {job: found[job] for job in jobs},
    }


if __name__ == "__main__":
    main()
