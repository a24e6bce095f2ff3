"""The Synthetic half of the paper's Table 2, by ``make paper-synthetic``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from fedcore.cli.job import run_job
from fedcore.config import resolve
from fedcore.history import environment
from fedcore.server.method import Draw
from fedcore.sim.fleet import fleet_of
from fedcore.sim.world import build_sampler, build_strategy
from fedcore.sources import benchmark as _benchmark
from fedcore.sources.clients import sizes_of

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "runs" / "paper"
RESULT = ROOT / "benchmarks" / "results" / "synthetic.json"
BENCHMARKS = ("synthetic-0-0", "synthetic-0.5-0.5", "synthetic-1-1")
PAPERS = ("fedavg", "fedavg-ds", "fedprox", "fedcore")
JOBS: dict[str, dict[str, Any]] = {
    "paper": {"preset": "paper", "seed": (0, 1, 2, 3, 4), "strategies": PAPERS},
    "tempo": {"preset": "paper", "seed": (0, 1, 2, 3, 4), "strategies": ("tempo",)},
    "paper-with-prox": {
        "preset": "paper",
        "seed": (0, 1, 2, 3, 4),
        "strategies": ("fedcore",),
        "prox_mu": 0.1,
    },
    "authors-code": {"preset": "authors-code", "strategies": PAPERS},
    "authors-code-chained": {
        "preset": "authors-code",
        "first_round": "chained",
        "strategies": PAPERS,
    },
}
KEPT = (
    "benchmark",
    "stragglers",
    "strategy",
    "seed",
    "rounds",
    "final_test_accuracy",
    "best_test_accuracy",
    "mean_test_accuracy_from_round_10",
    "final_train_accuracy",
    "mean_train_accuracy_from_round_10",
    "final_train_loss",
    "mean_round_time",
    "max_round_time",
    "deadline_misses",
    "deadline_miss_share",
)


def experiment(benchmark: str, options: dict[str, Any]) -> Any:
    def hyperparameters(name: str, preset: str) -> Any:
        return _benchmark.find(name).hyperparameters(preset)

    return resolve({"benchmark": benchmark, **options}, hyperparameters)


def run(job: str, benchmark: str) -> list[dict[str, Any]]:
    out = RUNS / job / benchmark
    content = run_job(
        experiment(benchmark, JOBS[job]),
        out,
        resume=(out / "experiment.json").exists(),
        plots=False,
    )
    return [{name: result[name] for name in KEPT} for result in content["results"]]


def round_times(std: float, fleets: int = 60) -> list[dict[str, Any]]:
    """Mean round times by the clock alone: 100 rounds in each of many fleets, no training."""
    dataset = _benchmark.find("synthetic-1-1").load(seed=0, data_dir=None, options={})
    sizes = sizes_of(dataset.clients)
    options = experiment("synthetic-1-1", {"capability_std": std})
    rows = []
    for stragglers in options.stragglers:
        for name in PAPERS:
            strategy = build_strategy(name, options, "input")
            means = []
            for seed in range(fleets):
                fleet = fleet_of(sizes, options, stragglers, seed)
                lengths = []
                for number in range(1, options.rounds + 1):
                    asked = Draw(10, number - 1, seed, sizes, fleet.profiles)
                    cohort = build_sampler(options).draw(asked)
                    plans = {
                        c: strategy.plan(fleet.profiles[c], fleet.deadline, options.epochs)
                        for c in cohort
                    }
                    times = [fleet.profiles[c].seconds(p.work(sizes[c])) for c, p in plans.items()]
                    lengths.append(max(times) / fleet.deadline)
                means.append(np.mean(lengths))
            rows.append(
                {
                    "capability_std": std,
                    "stragglers": stragglers,
                    "strategy": name,
                    "mean": float(np.mean(means)),
                    "std": float(np.std(means)),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", choices=list(JOBS), help="only this one; the others stay")
    only = parser.parse_args().job
    content = json.loads(RESULT.read_text()) if only else {"results": {}}
    for job in [only] if only else JOBS:
        content["results"][job] = [row for name in BENCHMARKS for row in run(job, name)]
    if not only:
        content["environment"] = environment()
        times = [row for std in (0.5, 0.25) for row in round_times(std)]
        content["round_times_of_60_fleets"] = times
    content |= {"command": "make paper-synthetic", "jobs": JOBS}
    RESULT.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
