"""Catch-up and larger steps in one table: each method at its best step size."""

from __future__ import annotations

import json
import statistics
import textwrap
from typing import Any

from benchmarks.choosing.figures import RESULTS
from benchmarks.choosing.steps import METHODS, PARTS
from benchmarks.tables import table

TITLES = {"synthetic": "Synthetic(1, 1)", "mnist": "MNIST", "shakespeare": "Shakespeare"}
Row = dict[str, Any]


def read(part: str) -> list[Row]:
    """What is committed of a part."""
    path = RESULTS / f"choosing-steps-{part}.json"
    return list(json.loads(path.read_text("utf-8"))["rows"]) if path.exists() else []


def best(rows: list[Row], method: str, stragglers: float) -> tuple[float, list[Row]] | None:
    """The step size of highest final accuracy in the mean over seeds, and its runs."""
    by_rate: dict[float, list[Row]] = {}
    for row in rows:
        if (row["method"], row["stragglers"]) == (method, stragglers):
            by_rate.setdefault(row["learning_rate"], []).append(row)
    if not by_rate:
        return None
    return max(by_rate.items(), key=lambda pair: statistics.fmean(r["final"] for r in pair[1]))


def shown(rows: list[Row], method: str, stragglers: float, grid: tuple[float, ...]) -> list[str]:
    """Final and steady accuracy, and the step size with an arrow at an end of the grid."""
    found = best(rows, method, stragglers)
    if found is None:
        return ["-", "-", "-"]
    rate, runs = found
    edge = {min(grid): " ↓", max(grid): " ↑"}.get(rate, "")
    means = [100 * statistics.fmean(row[key] for row in runs) for key in ("final", "steady")]
    return [*(f"{value:.1f}" for value in means), f"{rate:g}{edge}"]


def section() -> str:
    parts = []
    for name, part in PARTS.items():
        rows = read(name)
        levels = [level for level in part.stragglers if any(r["stragglers"] == level for r in rows)]
        methods = [m for m in METHODS if any(row["method"] == m for row in rows)]
        if methods:
            head = ["method"]
            for level in levels:
                head += [f"{level:g} %: final", "from round 10", "step size"]
            content = []
            for method in methods:
                cells = [shown(rows, method, level, part.learning_rates) for level in levels]
                content.append(
                    [METHODS[method].title, *(cell for three in cells for cell in three)]
                )
            seeds = len({row["seed"] for row in rows})
            told = f"{part.rounds} rounds, mean of {seeds} seed{'s' if seeds > 1 else ''}"
            parts.append(f"**{TITLES[name]}**, {told}.\n\n{table(head, content)}\n")
    if not parts:
        return ""
    about = (
        "Each method at its best of a grid of step sizes, by the final accuracy that is shown, "
        "which flatters all alike; ↓ and ↑ mark an end of the grid. The paper's fleet, equal "
        "numbers of rounds; FedAvg waits as long as needed. "
        "`--catch-up` makes slow clients' steps larger; the rules below lengthen their answers at "
        "the merge instead, by φ <= E m / n where n of E m samples were trained: to no more than "
        "the median length of the answers of those who did everything, or than the longest. "
        "[Tempo](methods.md) went by one of them until its merges were seen to swing on MNIST; it "
        "goes by turning since, as the next section has it."
    )
    return "\n".join(
        [
            "## Catching up, against larger steps for everybody\n",
            textwrap.fill(about, 100),
            "",
            *parts,
        ]
    )
