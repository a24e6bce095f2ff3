"""MNIST and Shakespeare as Markdown, from benchmarks/results/mnist.json and shakespeare.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
TITLES = {"fedavg": "FedAvg", "fedavg-ds": "FedAvg-DS", "fedprox": "FedProx", "fedcore": "FedCore"}
VARIANTS = {
    "random": "FedCore, below one pass: random subset",
    "static": "FedCore, below one pass: coreset by inputs",
    "normalised": "FedCore, random subset, normalised weights",
    "proportional": "FedCore, random subset, proportional weights",
    "exact": "FedCore, random subset, exact gradients",
    "exact-pass": "FedCore, exact gradients",
    "uniform": "FedCore, coresets drawn at random",
}


def section(name: str) -> str:
    """All runs of one benchmark in a table."""
    content = json.loads((RESULTS / f"{name}.json").read_text())
    rows = [
        (VARIANTS.get(job, TITLES[result["strategy"]]), result)
        for job, results in content["results"].items()
        for result in results
    ]
    head = "| stragglers | strategy | final accuracy | mean from 10 | train loss | mean round |"
    lines = [f"{head} longest | clients by path |", "| --- " * 8 + "|"]
    for title, result in sorted(rows, key=lambda row: row[1]["stragglers"]):
        lines.append(
            f"| {result['stragglers']:g} % | {title} | {100 * result['final_test_accuracy']:.1f} | "
            f"{100 * result['mean_test_accuracy_from_round_10']:.1f} | "
            f"{result['final_train_loss']:.3f} | {result['mean_round_time']:.2f} | "
            f"{result['max_round_time']:.2f} | {paths(result)} |"
        )
    return "\n".join(lines)


def paths(result: dict[str, Any]) -> str:
    return ", ".join(f"{path} {count}" for path, count in sorted(result["paths"].items()))
