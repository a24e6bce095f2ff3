"""The table of whole rounds in docs/performance.md, from benchmarks/results/rounds-*.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
TITLES = {
    "synthetic-1-1": "Synthetic(1, 1), logistic",
    "mnist": "MNIST, CNN",
    "shakespeare": "Shakespeare, LSTM",
}
AGAINST = {"": "Synthetic(1, 1)", "perceptron ": "FedAvg with a 60-32-10 perceptron on it"}
HEAD = (
    "device",
    "benchmark",
    "clients a round",
    "epochs",
    "rounds",
    "round, s",
    "training, s",
    "waited for coresets, s",
    "share, mean (median round)",
    "work on coresets, core s",
    "evaluation, s",
    "of training",
    "rest, s",
)


def read() -> list[dict[str, Any]]:
    paths = (RESULTS / f"rounds-{device}.json" for device in ("cpu", "cuda"))
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def cells(machine: dict[str, Any], entry: dict[str, Any]) -> list[str]:
    mean = entry["mean"]
    on_cpu = machine["device"] == "cpu"
    share = 100 * mean["waited for selection"] / mean["round"]
    median = 100 * entry["waited share of a median round"]
    return [
        f"{machine['cores']} cores" if on_cpu else machine["device"],
        TITLES[entry["benchmark"]],
        str(entry["clients a round"]),
        str(entry["epochs"]),
        str(len(entry["rounds"])),
        number(mean["round"]),
        number(mean["training"]),
        number(mean["waited for selection"]),
        f"{share:.1f} % ({median:.1f} %)",
        number(mean["selection work"]),
        number(mean["evaluation"]),
        f"{100 * mean['evaluation'] / mean['training']:.0f} %",
        number(mean["rest"]),
    ]


def number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def section() -> str:
    """The table, and small models' rounds against the plain loop."""
    rows, sentences = [], []
    for content in read():
        rows += [cells(content["machine"], entry) for entry in content["benchmarks"]]
        for whose, round_of in AGAINST.items():
            if plain := content.get(f"{whose}against the plain loop"):
                sentences.append(against_plain(plain, round_of))
    lines = ["| " + " | ".join(HEAD) + " |", "| --- " * len(HEAD) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, "", "\n\n".join(sentences)])


def against_plain(plain: dict[str, Any], round_of: str) -> str:
    ours, theirs = (1e3 * plain[f"{whose}, median round"] for whose in ("ours", "plain"))
    return (
        f"A whole round of {round_of} with its evaluation takes {ours:.3g} ms against "
        f"{theirs:.0f} ms of the plain loop, {plain['times faster']:.3g} times less (target "
        f"{plain['target']:g}; median of {plain['rounds']} rounds, in turns). "
    ) + (
        f"Seconds of cores are {plain['times less of cores']:.3g} times less."
        if plain.get("strategy") == "fedavg"
        else "Over these first rounds together, in which both choose most of their coresets, it is "
        f"{plain['times faster, all rounds']:.3g} times less."
    )
