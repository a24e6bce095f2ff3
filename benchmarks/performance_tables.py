"""Rounds, peers and growth as Markdown, from the files of those names in benchmarks/results."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.simulator import rounds_table

RESULTS = Path(__file__).parent / "results"
WORKLOADS = {"synthetic-1-1": "Synthetic (1, 1), logistic", "mnist": "MNIST, CNN"}
STRATEGIES = {"fedavg": "FedAvg", "fedcore": "FedCore"}
KILO = 1024


def sections() -> dict[str, str]:
    """What stands between the markers of docs/performance.md, by their names."""
    growth = _read("growth.json")
    return {
        "rounds": rounds_table.section(),
        "peers": peers_section(_read("peers.json")),
        "cohort": growth_table(growth["cohort"], "cohort"),
        "fleet": growth_table(growth["fleet"], "fleet"),
    }


def peers_section(report: dict[str, Any]) -> str:
    """A row for everybody and every workload, and what it was measured with."""
    rows = [
        [WORKLOADS[workload["name"]], *_contestant(row)]
        for workload in report["workloads"]
        for row in workload["contestants"]
    ]
    head = ["workload", "who", "fastest as", "s a round", "turns", "times ours", "start and end, s"]
    packages = {f"{n} {v}" for peer in report["peers"].values() for n, v in peer.items()}
    machine = report["machine"]
    how = [
        f"- {WORKLOADS[w['name']]}: {w['clients per round']} of {w['clients']} clients a round, "
        f"epochs: {w['epochs']}, {w['steps per round']:,} steps a round; data: {w['data']}"
        for w in report["workloads"]
    ]
    return "\n".join(
        [
            _table(head, rows),
            "",
            *how,
            f"- {', '.join(sorted(packages))}; {machine['cores']} cores, load "
            f"{machine['load before']} before and {report['load after']} after "
            f"{report['minutes']} minutes",
        ]
    )


def _contestant(row: dict[str, Any]) -> list[str]:
    if "seconds per round" not in row:
        return [row["name"], "not measured: " + "; ".join(row["not measured"]), "", "", "", ""]
    turns = row["every turn"]
    ratio = f"{row['times ours']:.3g}" if "times ours" in row else f"none: {row['no ratio']}"
    return [
        row["name"],
        row["variant"],
        f"{row['seconds per round']:.3g}",
        f"{min(turns):.3g}-{max(turns):.3g}",
        ratio,
        f"{row['start and end']:.1f}",
    ]


def growth_table(points: Sequence[dict[str, Any]], varied: str) -> str:
    """Seconds and memory against the size of the cohort or of the fleet, and how they grow."""
    by_strategy = {s: [point for point in points if point["strategy"] == s] for s in STRATEGIES}
    first = by_strategy["fedavg"]
    sizes = [point[varied] for point in first]
    columns = {f"clients in the {varied}": [f"{size:,}" for size in sizes] + ["growth"]}
    for name, title in STRATEGIES.items():
        seconds = [point["round_seconds"] for point in by_strategy[name]]
        slope = f"exponent {exponent(sizes, seconds):.2f}"
        columns[f"{title}, s a round"] = [f"{value:.3g}" for value in seconds] + [slope]
    for name, title in STRATEGIES.items():
        peaks = [point["peak_megabytes"] for point in by_strategy[name]]
        each = (peaks[-1] - peaks[0]) * KILO / (sizes[-1] - sizes[0])
        slope = f"{each:.2g} KB a client"
        columns[f"{title}, peak MB"] = [f"{value:.1f}" for value in peaks] + [slope]
    data = [point[f"{varied}_megabytes"] for point in first]
    each = data[-1] * KILO / sizes[-1]
    columns[f"samples of the {varied}, MB"] = [
        f"{v:,.0f}" if v >= 100 else f"{v:.3g}" for v in data
    ] + [f"{each:.2g} KB a client"]
    if varied == "fleet":
        before = [point["preparation_seconds"] for point in first]
        columns["preparation, s"] = [f"{value:.2g}" for value in before] + [""]
        whole = [point["evaluation_seconds"] for point in first]
        slope = f"exponent {exponent(sizes, whole):.2f}"
        columns["one look at all samples, s"] = [f"{value:.2g}" for value in whole] + [slope]
    return _table(list(columns), [list(row) for row in zip(*columns.values(), strict=True)])


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Slope of log cost against log size by least squares: 1 is in proportion, 0 is flat."""
    slope, _ = np.polyfit([math.log(size) for size in sizes], [math.log(c) for c in costs], 1)
    return float(slope)


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / name).read_text())
    return content


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
