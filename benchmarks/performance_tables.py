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
LAB_METHODS = {"fedavg": "FedAvg", "fedbuff": "FedBuff"}
KILO = 1024


def sections() -> dict[str, str]:
    """What stands between the markers of docs/performance.md, by their names."""
    growth = _read("growth.json")
    return {
        "rounds": rounds_table.section(),
        "chains": chains_table(_read("chains.json")["chains"]),
        "peers": peers_section(_read("peers.json")),
        "lab-peers": lab_peers_section(_read("lab-peers.json")),
        "cohort": growth_table(growth["cohort"], "cohort"),
        "fleet": growth_table(growth["fleet"], "fleet"),
        "convolutions": convolutions_table(_read("convolutions-cuda.json")),
        "recurrence": recurrence_table(_read("recurrence-cuda.json")),
        "throughput": throughput_table(_read("throughput-cuda.json")),
        "tiny": tiny_table(_read("tiny-coresets-cuda.json")),
    }


def convolutions_table(report: dict[str, Any]) -> str:
    """Both layers of the CNN: written patches against kernels that read them where they lie."""
    lines = ["| clients | images | maps | patches, µs | kernels, µs | times faster |"]
    lines.append("| --- " * 6 + "|")
    for row in report["rows"]:
        images = f"{row['side']} x {row['side']} x {row['channels']}"
        two = row["plain us"], row["kernels us"]
        cells = f"{two[0]} | {two[1]} | {two[0] / two[1]:.2f}"
        lines.append(f"| {row['clients']} | {images} | {row['maps']} | {cells} |")
    return "\n".join(lines)


def recurrence_table(report: dict[str, Any]) -> str:
    """The LSTM's recurrence and its whole step: plain layers against one launch in clusters."""
    lines = ["| clients | clusters, µs: there and back | step by plain layers, ms | "]
    lines[0] += "by clusters, ms | times faster | off float64: plain | clusters |"
    lines.append("| --- " * 7 + "|")
    for row in report["rows"]:
        steps = [row[f"{way} step ms"] for way in RECURRENCES]
        cells = [f"{row['forward us']} + {row['backward us']}"]
        cells += [f"{step:.2f}" for step in steps] + [f"{steps[0] / steps[1]:.1f}"]
        cells += [f"{row[f'{way} error']:.0e}" for way in RECURRENCES]
        lines.append(f"| {row['clients']} | {' | '.join(cells)} |")
    return "\n".join(lines)


RECURRENCES = ("plain", "clusters")


def throughput_table(report: dict[str, Any]) -> str:
    """Client-steps a second of synchronous and asynchronous runs."""
    lines = ["| method | merges | jobs at a time | client-steps a second | of training alone |"]
    lines.append("| --- " * 5 + "|")
    for row in report["methods"]:
        rates = f"{row['client-steps a second']:,.0f} | {row['of training']:,.0f}"
        jobs = f"{row['jobs at a time']:.1f}"
        lines.append(f"| {row['method']} | {row['merges']} | {jobs} | {rates} |")
    return "\n".join(lines)


def tiny_table(report: dict[str, Any]) -> str:
    """Rounds with tiny coresets: seconds, and what is asked of the device."""
    counts = ("steps", "launches", "waits", "copies")
    lines = [f"| strategy | s a round | times FedProx | {' | '.join(counts)} | clients at work |"]
    lines.append("| --- " * (4 + len(counts)) + "|")
    for name, found in report["methods"].items():
        asked = " | ".join(f"{found['a round'][what]:.0f}" for what in counts)
        paths = found["paths"]
        busy = sum(count for path, count in paths.items() if path != "sat-out")
        share = f"{busy} of {sum(paths.values())}"
        times = f"{found['seconds a round']:.3f} | {found['times FedProx']:.2f}"
        lines.append(f"| {name} | {times} | {asked} | {share} |")
    return "\n".join(lines)


def chains_table(rows: Sequence[dict[str, Any]]) -> str:
    """Microseconds of a core a step, of the plain loop, side by side, and compiled."""
    head = ["layers", "activation", "batch", "rule", "parameters", "plain loop, µs"]
    head += ["side by side, µs", "compiled, µs", "times faster than plain", "floor, µs"]
    known = ("widths", "activation", "batch", "rule")
    body = [
        [
            *(str(row[name]) for name in known),
            f"{row['parameters']:,}",
            *(rounds_table.number(row[f"{name} us"]) for name in ("plain", "before", "ours")),
            f"{row['plain us'] / row['ours us']:.3g}",
            rounds_table.number(row["floor us"]),
        ]
        for row in rows
    ]
    return _table(head, body)


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


def lab_peers_section(report: dict[str, Any]) -> str:
    """A row for everybody and either method, and what it was measured with."""
    rows = report["rows"]
    ours = {row["method"]: row["CPU microseconds a step"] for row in rows if row["name"] == "ours"}
    head = [
        "method",
        "who",
        "CPU s a merge",
        "steps a merge",
        "CPU µs a step",
        "turns",
        "times ours",
    ]
    head += ["virtual time, s", f"of {report['weights']} weights evaluation changes", "to know"]
    body = [
        [LAB_METHODS[row["method"]], row["name"], *lab_row(row, ours[row["method"]])]
        for row in rows
    ]
    packages = {f"{n} {v}" for peer in report["peers"].values() for n, v in peer.items()}
    machine = report["machine"]
    return "\n".join(
        [
            _table(head, body),
            "",
            f"- {report['clients']} clients, {report['at once']} of a round, at work at once and "
            f"of a buffer, {report['steps of a job']:,} steps a job in the mean; best of "
            f"{report['turns']} turns, one thread each",
            f"- {', '.join(sorted(packages))}; {machine['cores']} cores, load "
            f"{machine['load before']} before and {report['load after']} after "
            f"{report['minutes']} minutes",
        ]
    )


def lab_row(row: dict[str, Any], ours: float) -> list[str]:
    """Cells behind method and name; ``ours`` are our microseconds a step."""
    remark = row.get("remark", "")
    if "not measured" in row:
        return ["not measured: " + row["not measured"], *[""] * 6, remark]
    micro, turns = row["CPU microseconds a step"], row["every turn"]
    virtual = row["virtual seconds"]
    changed = row.get("weights changed by evaluation")
    if not row["repeats itself"]:
        told = "unknown: two runs differ anyway"
    elif changed is None:
        told = "not measured"
    else:
        told = f"{changed}, by up to {row['largest change by evaluation']}" if changed else "none"
    return [
        f"{row['CPU seconds a merge']:.3g}",
        f"{row['steps'] / row['merges']:,.0f}",
        f"{micro:.3g}",
        f"{min(turns):.3g}-{max(turns):.3g}",
        f"{micro / ours:.3g}",
        "none" if virtual is None else f"{virtual:,.0f}",
        told,
        remark,
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
