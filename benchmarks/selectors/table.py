"""The study of selectors as Markdown, from benchmarks/results/selectors.json and moving.json."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
WEIGHTINGS = ("scaled", "normalised", "proportional")
Row = dict[str, Any]


def mean(rows: list[Row], name: str) -> float | None:
    values = [row[name] for row in rows if row[name] is not None]
    return statistics.mean(values) if len(values) == len(rows) and values else None


def shown(value: float | None, digits: int = 3) -> str:
    return "diverged" if value is None else f"{value:.{digits}f}"


def section() -> str:
    content = json.loads((RESULTS / "selectors.json").read_text())
    moving = json.loads((RESULTS / "moving.json").read_text())
    settings = list(dict.fromkeys(row["setting"] for row in content["rows"]))
    parts = [setting_table(content, setting) for setting in settings]
    return "\n\n".join([*parts, weighting_table(content, settings), moving_table(moving)])


def setting_table(content: dict[str, Any], setting: str) -> str:
    rows = [row for row in content["rows"] if row["setting"] == setting]
    full = [row for row in content["full_set"] if row["setting"] == setting]
    before, after = mean(full, "loss_before"), mean(full, "loss")
    lines = [
        f"**{setting}** (training loss {shown(before)}; after as many epochs on everything "
        f"{shown(after)})",
        "",
        "| share | selector | size | objective | proxy error | error at start | error at end | "
        + " | ".join(f"loss, {w}" for w in WEIGHTINGS)
        + " | ms |",
        "| --- " * (8 + len(WEIGHTINGS)) + "|",
    ]
    for share in sorted({row["share"] for row in rows}):
        of_share = [row for row in rows if row["share"] == share]
        best = mean([row for row in of_share if row["selector"] == "kmedoids"], "objective")
        for selector in dict.fromkeys(row["selector"] for row in of_share):
            own = [row for row in of_share if row["selector"] == selector]
            objective = mean(own, "objective")
            plain = [row for row in own if row["weighting"] == "scaled"]
            relative = "-" if objective is None or not best else f"{objective / best:.2f}"
            losses = [
                shown(mean([row for row in own if row["weighting"] == w], "loss"))
                for w in WEIGHTINGS
            ]
            cells = [
                f"{share:g}",
                selector,
                f"{mean(own, 'size'):.0f}",
                relative,
                shown(mean(own, "proxy_error")),
                shown(mean(own, "error_start")),
                shown(mean(plain, "error_end")),
                *losses,
                f"{1000 * (mean(own, 'seconds') or 0):.0f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def weighting_table(content: dict[str, Any], settings: list[str]) -> str:
    """Loss after training, over all budgets: k-medoids under the three weightings."""
    lines = [
        "**k-medoids under the three weightings** (mean loss over budgets and seeds)",
        "",
        "| setting | " + " | ".join(WEIGHTINGS) + " | largest weight |",
        "| --- " * (len(WEIGHTINGS) + 2) + "|",
    ]
    for setting in settings:
        rows = [
            row
            for row in content["rows"]
            if row["setting"] == setting and row["selector"] == "kmedoids"
        ]
        cells = [
            shown(mean([row for row in rows if row["weighting"] == w], "loss"), 4)
            for w in WEIGHTINGS
        ]
        largest = max(row["largest_weight"] for row in rows)
        lines.append(f"| {setting} | " + " | ".join(cells) + f" | {largest:.0f} |")
    return "\n".join(lines)


def moving_table(content: dict[str, Any]) -> str:
    lines = [
        "**Free gradients of the first epoch against an exact pass at its end** (gradient error of "
        "the whole model at the end of the epoch, mean over 3 seeds)",
        "",
        "| setting | share | moving, free | exact, one more forward pass |",
        "| --- | --- | --- | --- |",
    ]
    for key in dict.fromkeys((row["setting"], row["share"]) for row in content["rows"]):
        rows = [row for row in content["rows"] if (row["setting"], row["share"]) == key]
        cells = [key[0], f"{key[1]:g}", shown(mean(rows, "moving")), shown(mean(rows, "exact"))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
