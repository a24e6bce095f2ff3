"""The trade as a table and a picture, from the files of its parts."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

from fedcore.theory import Constants

Row = dict[str, Any]
TITLES = (
    *("late at E epochs", "deadline", "coresets", "b/m", "ε", "rounds"),
    *("corrected bound", "recursion", "loss above the least"),
)


def rows_of(folder: Path) -> dict[float, list[Row]]:
    """Rows by l2, the tightest deadline first, with both bounds on the loss."""
    found: dict[float, list[Row]] = {}
    for path in folder.glob("l2-*.json"):
        row = json.loads(path.read_text())
        of = Constants(**row["constants"])
        # A row of theory.json has them, from constants of more digits.
        row.setdefault("bound", float(of.loss_bound(of.epochs * row["rounds"])))
        row.setdefault("recursion", of.smoothness / 2 * of.recursion(row["rounds"])[-1])
        row["loss"], row["first"] = row["gap"][-1], row["gap"][0]
        found.setdefault(row["l2"], []).append(row)
    return {l2: sorted(found[l2], key=lambda row: row["deadline"]) for l2 in sorted(found)}


def shares(row: Row) -> list[float]:
    """What part of its samples each coreset has."""
    pairs = zip(row["budgets"], row["sizes"], strict=True)
    return [own / size for own, size in pairs if own < size]


def table(rows: list[Row], advised: float) -> str:
    """Markdown: a line for every deadline, and which is best by what."""
    lines = ["| " + " | ".join(TITLES) + " |", "|" + " --- |" * len(TITLES)]
    for row in rows:
        coresets = f"{len(shares(row))} | {100 * statistics.median(shares(row)):.1f} %"
        bounds = f"{row['bound']:.3g} | {row['recursion']:.3g} | {row['loss']:.4f}"
        known = f"{row['deadline']:.3g} | {coresets} | {row['error']:.3f} | {row['rounds']}"
        lines.append(f"| {row['stragglers']:.3g} % | {known} | {bounds} |")
    names = {
        "loss": "the loss measured",
        "bound": "the corrected bound",
        "recursion": "the recursion",
    }
    best = {name: min(rows, key=lambda row: row[name])["deadline"] for name in names}
    told = [f"{best[name]:.3g} by {title}" for name, title in names.items()]
    told.append(f"{advised:.3g} by `fedcore advise`")
    apart = f"{best['bound'] / best['loss']:.3g} times the measured best, the advised one "
    apart += f"{advised / best['loss']:.2g} times"
    return "\n".join([*lines, "", f"Best deadlines: {', '.join(told)}. The bound's is {apart}."])


def draw(found: dict[float, list[Row]], path: Path, advised: float) -> None:
    """Bounds, loss and ε over the deadline, a panel for each l2."""
    from matplotlib.figure import Figure

    from fedcore.report.plots import COLOURS

    figure = Figure(figsize=(5.2 * len(found), 4.4), layout="constrained", dpi=120)
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    names = {
        "bound": "corrected bound on the loss",
        "recursion": "bound by the recursion",
        "loss": "loss above the least",
        "error": "error ε of coresets",
    }
    for axes, (l2, rows) in zip(panels, found.items(), strict=True):
        times = [row["deadline"] for row in rows]
        for colour, (name, title) in zip(COLOURS[1:], names.items(), strict=False):
            values = [row[name] for row in rows]
            axes.loglog(times, values, marker="o", markersize=3, label=title, color=colour)
        axes.axhline(rows[0]["first"], color="#999999", linewidth=0.8, label="loss before")
        axes.axvline(advised, color="black", linestyle=":", linewidth=1, label="advised")
        axes.set(xlabel="Deadline (1: 30 % are late)", title=f"l2 = {l2:g}")
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path)


def write_page(folder: Path, results: Path, picture: Path, advised: float) -> None:
    """Results as JSON, as Markdown and as a picture."""
    found = rows_of(folder)
    kept = {str(l2): [short(row) for row in rows] for l2, rows in found.items()}
    results.with_suffix(".json").write_text(json.dumps(kept) + "\n")
    parts = [f"## l2 = {l2:g}\n\n{table(rows, advised)}\n" for l2, rows in found.items()]
    head = "# Deadlines in a fixed time: `python -m benchmarks.theory`, then `--page`\n\n"
    results.with_suffix(".md").write_text(head + "\n".join(parts))
    draw(found, picture, advised)
    print(f"written: {results}.json, {results}.md, {picture}")


def short(value: Any) -> Any:
    """Numbers to five digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: short(part) for name, part in value.items()}
    return [short(part) for part in value] if isinstance(value, list) else value
