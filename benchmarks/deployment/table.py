"""What was measured of the deployment, as Markdown for docs/deployment.md: ``make results``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.deployment.accuracy_table import table as of_accuracies

RESULTS = Path(__file__).parents[1] / "results"
ACCURACIES = {"synthetic": "Synthetic(1, 1)", "mnist": "MNIST, CNN"}


def rounds_section() -> str:
    """Who was on time, FedCore beside FedAvg."""
    found = json.loads((RESULTS / "deployment.json").read_text(encoding="utf-8"))
    names = [name for name in found["fedcore"] if name != "final accuracy"]
    lines = ["| | FedCore | FedAvg |", "| --- | --- | --- |"]
    lines += [f"| {n} | {found['fedcore'][n]:g} | {found['fedavg'][n]:g} |" for n in names]
    machine = found["machine"]
    where = f"{machine['cores']} cores, Python {machine['python']}, torch {machine['torch']}"
    told = ", ".join(f"{what} (`{how}`)" for how, what in found["nodes"].items())
    return (
        f"Deadline {found['deadline s']:g} s, grace {found['grace s']:g} s; {where}. Nodes: {told}."
        f"\nFedAvg's rounds take {found['fedavg / fedcore, mean round']:g} times as long.\n\n"
        + "\n".join(lines)
    )


def accuracy_section() -> str:
    """``fit`` and ``on_time`` against the simulator, a table for each benchmark."""
    parts = []
    for name, title in ACCURACIES.items():
        path = RESULTS / f"deployment-accuracy-{name}.json"
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        told, seeds = content["settings"], len(content["runs"]["simulator"])
        size = f"{told['rounds']} rounds, {told['epochs']} epochs, {seeds} seeds"
        parts.append(f"{title}, {size}:\n\n{of_accuracies(content['runs'])}")
    return "\n\n".join(parts)
