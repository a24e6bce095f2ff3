"""The table of docs/advise.md, from benchmarks/results/advise.json: ``make results``."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

BEGIN, END = (
    "<!-- begin: python -m benchmarks.advise -->",
    "<!-- end: python -m benchmarks.advise -->",
)
FACTOR = 1.5


def table(content: dict[str, Any]) -> str:
    """All ten cases, and what they come to."""
    head = ["case", "target", "deadline / tau30", "tried", "predicted, s", "80 % of runs, s"]
    head += ["a run needs, s", "predicted / needed", "two more runs"]
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    near, inside, runs = 0, 0, 0
    for one in content["cases"]:
        case, time, within = one["case"], one["predicted"], one["within"]
        links = f"sending {case['sending']:g} tau30" if case["sending"] else "own links"
        needed = [run["seconds"] for run in one["needed"]]
        ratios = [time / seconds if seconds else 0.0 for seconds in needed]
        near += 1 / FACTOR <= ratios[0] <= FACTOR
        inside += sum(1 / within <= ratio <= within for ratio in ratios)
        runs += len(ratios)
        row = next(r for r in one["deadlines"] if r["of_tau"] == one["of_tau"])
        cells = [
            f"{case['benchmark']}, {case['fleet']}, {links}",
            f"{one['target']:.1%}",
            f"{one['of_tau']:g}",
            f"{row['tried']} rounds",
            f"{time:,.0f}",
            f"{time / within:,.0f} to {time * within:,.0f}",
            f"{needed[0]:,.0f}" if needed[0] else "never",
            f"{ratios[0]:.2f}",
            ", ".join(f"{ratio:.2f}" for ratio in ratios[1:]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    size, work = content["size"], [one["cpu seconds"] for one in content["cases"]]
    told = f"Within a factor of {FACTOR}: {near} of {len(content['cases'])} cases. Of {runs} runs "
    told += f"{inside} lie in the interval that is to hold 80 %. An answer took "
    told += f"{statistics.median(work):.0f} s of processor time in the median, and "
    told += f"{size['cpu seconds']:.0f} s for {size['clients']:,} clients, data and all."
    return "\n".join([*lines, "", told])


def renew(results: Path, page: Path) -> None:
    """Put the table between its markers."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    content = table(json.loads(results.read_text()))
    page.write_text(f"{before}{BEGIN}\n{content}\n{END}{after}")
