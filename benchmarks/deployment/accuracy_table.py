"""Accuracies of the three ways as Markdown; needs nothing of Flower."""

from __future__ import annotations

import statistics
from typing import Any


def table(found: dict[str, list[dict[str, Any]]]) -> str:
    """Medians over seeds, the largest distance from the simulator, and what clients did."""
    lines = ["| way | test accuracy | most apart | coresets | plain draws | cut short |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    base = [one["last"] for one in found["simulator"]]
    for way, runs in found.items():
        mine = [one["last"] for one in runs]
        apart = max(abs(a - b) for a, b in zip(mine, base, strict=True))
        counts = [str(sum(one[name] for one in runs)) for name in ("coresets", "plain", "cut")]
        numbers = [f"{100 * statistics.median(mine):.1f} %", f"{100 * apart:.1f}", *counts]
        lines.append(f"| {way} | {' | '.join(numbers)} |")
    return "\n".join(lines)
