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
    "core-catch-up": "FedCore, steps up to 10 times larger",
    "prox-catch-up": "FedProx, steps up to 10 times larger",
    "uniform-catch-up": "FedCore, drawn at random, steps up to 10 times larger",
    "few-epochs": "FedCore, few epochs on larger coresets",
    "few-epochs-catch-up": "FedCore, few epochs on larger coresets, larger steps",
    "linked": "FedCore, the authors' fleet",
    "linked-catch-up": "FedCore, the authors' fleet, steps up to 10 times larger",
}


def section(name: str) -> str:
    """All runs of one benchmark in a table."""
    content = json.loads((RESULTS / f"{name}.json").read_text())
    rows = [
        (VARIANTS.get(job, TITLES[result["strategy"]]), result)
        for job, results in content["results"].items()
        for result in results
    ]
    head = "| stragglers | strategy | rounds | final accuracy | mean from 10 | train loss |"
    lines = [f"{head} mean round | longest | clients by path |", "| --- " * 9 + "|"]
    for title, result in sorted(rows, key=lambda row: row[1]["stragglers"]):
        lines.append(
            f"| {result['stragglers']:g} % | {title} | {result['rounds']} | "
            f"{100 * result['final_test_accuracy']:.1f} | "
            f"{100 * result['mean_test_accuracy_from_round_10']:.1f} | "
            f"{result['final_train_loss']:.3f} | {result['mean_round_time']:.2f} | "
            f"{result['max_round_time']:.2f} | {paths(result)} |"
        )
    return "\n".join(lines)


def shakespeare_gap(job: str, name: str = "mean_test_accuracy_from_round_10") -> float:
    """Points that a job's first run ends below FedAvg's, by the figure of the paper's Table 2."""
    results = json.loads((RESULTS / "shakespeare.json").read_text())["results"]
    gap: float = 100 * (results["avg"][0][name] - results[job][0][name])
    return gap


def shakespeare_gaps() -> str:
    """The same for both fleets, with and without larger steps."""
    final = "final_test_accuracy"
    rows = [
        "| fleet | FedCore's steps | below FedAvg, mean from 10 | below FedAvg, final |",
        "| --- " * 4 + "|",
    ]
    for fleet, job in (("text: N(1, 0.25)", "core"), ("authors' code", "linked")):
        for steps, own in (("the paper's", job), ("up to 10 times larger", f"{job}-catch-up")):
            gaps = f"{shakespeare_gap(own):.1f} | {shakespeare_gap(own, final):.1f}"
            rows.append(f"| {fleet} | {steps} | {gaps} |")
    return "\n".join(rows)


def paths(result: dict[str, Any]) -> str:
    return ", ".join(f"{path} {count}" for path, count in sorted(result["paths"].items()))
