"""The trade as a table and a picture, from the files of its parts."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def rows_of(folder: Path) -> dict[float, list[Row]]:
    """Rows by l2, the tightest deadline first."""
    found: dict[float, list[Row]] = {}
    for path in folder.glob("l2-*.json"):
        row = json.loads(path.read_text())
        found.setdefault(row["l2"], []).append(row)
    return {l2: sorted(found[l2], key=lambda row: row["deadline"]) for l2 in sorted(found)}


def budget(row: Row) -> float:
    """Median share of its samples that a slow client's coreset has."""
    pairs = zip(row["budgets"], row["sizes"], strict=True)
    return float(statistics.median(own / size for own, size in pairs if own < size))


def slow(row: Row) -> int:
    """Clients with a coreset."""
    return sum(own < size for own, size in zip(row["budgets"], row["sizes"], strict=True))


def best(rows: list[Row], name: str) -> Row:
    """The row with the least of it at the end."""
    return min(rows, key=lambda row: row[name][-1] if isinstance(row[name], list) else row[name])


def table(rows: list[Row], advised: float | None) -> str:
    """Markdown: a line for every deadline, and which is best by what."""
    titles = ("late at E epochs", "deadline", "coresets", "b/m", "ε", "rounds", "bound on the loss")
    lines = ["| " + " | ".join((*titles, "loss above the least")) + " |", "|" + " --- |" * 8]
    for row in rows:
        end = f"{row['loss_bound']:.3g} | {row['gap'][-1]:.4f} |"
        share = f"{100 * budget(row):.1f} %"
        known = f"{row['deadline']:.3g} | {slow(row)} | {share} | {row['error']:.3f}"
        lines.append(f"| {row['stragglers']:g} % | {known} | {row['rounds']} | {end}")
    by_bound, by_loss = best(rows, "loss_bound"), best(rows, "gap")
    told = f"Best deadline by the bound: {by_bound['deadline']:.3g}; by the loss measured: "
    told += f"{by_loss['deadline']:.3g}, {apart(by_bound, by_loss['deadline'])} of it"
    if advised is not None:
        told += f"; by `fedcore advise`: {advised:.3g}, {apart(by_loss, advised)} of that"
    return "\n".join([*lines, "", told + "."])


def apart(row: Row, other: float) -> str:
    """How many times another deadline is a row's."""
    return f"{other / row['deadline']:.2g} times that"


def draw(found: dict[float, list[Row]], path: Path, advised: float | None) -> None:
    """Bound and loss over the deadline, a panel for each l2."""
    from matplotlib.figure import Figure

    from fedcore.report.plots import COLOURS

    figure = Figure(figsize=(5.2 * len(found), 4), layout="constrained", dpi=120)
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for axes, (l2, rows) in zip(panels, found.items(), strict=True):
        x = [row["deadline"] for row in rows]
        first = rows[0]["gap"][0]
        known = (
            ("bound on the loss", [row["loss_bound"] for row in rows]),
            ("loss above the least", [row["gap"][-1] for row in rows]),
            ("error ε of coresets", [row["error"] for row in rows]),
        )
        for colour, (name, values) in zip(COLOURS[1:], known, strict=False):
            axes.loglog(x, values, marker="o", markersize=3, label=name, color=colour)
        axes.axhline(first, color="#999999", linewidth=0.8, label="loss at the beginning")
        if advised is not None:
            axes.axvline(advised, color="black", linestyle=":", linewidth=1, label="advised")
        axes.set(xlabel="Deadline (that of 30 %: 1)", title=f"l2 = {l2:g}")
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path)


def write_page(folder: Path, results: Path, picture: Path, advised: float | None) -> None:
    """Results as JSON, as Markdown and as a picture."""
    found = rows_of(folder)
    kept = {
        l2: [{k: short(v) for k, v in row.items()} for row in rows] for l2, rows in found.items()
    }
    results.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n")
    parts = [f"## l2 = {l2:g}\n\n{table(rows, advised)}\n" for l2, rows in found.items()]
    head = "# Deadlines in a fixed time: `python -m benchmarks.theory`, then `--page`\n\n"
    results.with_suffix(".md").write_text(head + "\n".join(parts))
    draw(found, picture, advised)
    print(f"written: {results}.json, {results}.md, {picture}")


def short(value: Any) -> Any:
    """Numbers to five digits; of curves, what a picture shows."""
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, list):
        return [short(part) for part in value]
    return value
