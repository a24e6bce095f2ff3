"""MNIST and Shakespeare as Markdown, from benchmarks/results/mnist.json and shakespeare.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
TITLES = {"fedavg": "FedAvg", "fedavg-ds": "FedAvg-DS", "fedprox": "FedProx", "fedcore": "FedCore"}
WORDS: dict[str, Callable[[Any], str]] = {  # what an option adds to a strategy's name
    "capability": lambda _: "the authors' fleet",
    "coreset_epochs": lambda _: "few epochs on larger coresets",
    "below_one_pass": lambda way: f"below one pass: {way}",
    "weighting": lambda kind: f"{kind} weights",
    "gradients": lambda kind: f"{kind} gradients",
    "selector": lambda _: "coresets drawn at random",
    "catch_up": lambda limit: f"steps up to {limit:g} times larger",
    "seed": lambda seed: f"seed {seed}",
}


def title_of(options: dict[str, Any], strategy: str) -> str:
    """A run's name: its strategy, and in what it differs from the preset."""
    words = (say(options[name]) for name, say in WORDS.items() if name in options)
    return ", ".join([TITLES[strategy], *words])


def section(name: str) -> str:
    """All runs of one benchmark in a table."""
    content = json.loads((RESULTS / f"{name}.json").read_text())
    rows = [
        (title_of(content["jobs"][job], result["strategy"]), result)
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
    """The same for both fleets: as in the paper, with larger steps, and with fewer epochs."""
    final = "final_test_accuracy"
    rows = [
        "| fleet | FedCore | below FedAvg, mean from 10 | below FedAvg, final |",
        "| --- " * 4 + "|",
    ]
    ways = ("as in the paper", "larger steps", "larger steps, few epochs on larger coresets")
    fleets = {
        "text: N(1, 0.25)": ("core", "core-catch-up", "few-epochs-catch-up"),
        "authors' code": ("linked", "linked-catch-up", "linked-few-epochs-catch-up"),
    }
    for fleet, jobs in fleets.items():
        for way, job in zip(ways, jobs, strict=True):
            gaps = f"{shakespeare_gap(job):.1f} | {shakespeare_gap(job, final):.1f}"
            rows.append(f"| {fleet} | {way} | {gaps} |")
    return "\n".join(rows)


def paths(result: dict[str, Any]) -> str:
    return ", ".join(f"{path} {count}" for path, count in sorted(result["paths"].items()))
