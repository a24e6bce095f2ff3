"""The runs of a part as one small file: a line per setting and arm, an accuracy per seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.choosing.pieces import lines_of, made_on, write
from benchmarks.choosing.settings import PARTS
from fedcore.history import STEADY

Row = Mapping[str, Any]
SETTING = ("condition", "schedule", "epochs", "share", "arm")
LAST = 10  # one in so many rounds makes the end, whose mean is the accuracy reported


def key_of(row: Row) -> tuple[Any, ...]:
    """What tells runs apart."""
    return (*(row[name] for name in SETTING), row["seed"])


def condense(name: str, folder: Path, results: Path) -> Path | None:
    """Write what is done of a part, if anything is."""
    part = PARTS[name]
    by_setting: dict[tuple[Any, ...], dict[int, Row]] = defaultdict(dict)
    for row in lines_of(folder):
        if len(row["accuracies"]) == part.rounds:
            by_setting[key_of(row)[:-1]][row["seed"]] = row
    if not by_setting:
        return None
    lines: list[dict[str, Any]] = []
    places = {setting: place for place, setting in enumerate(part.settings())}
    for key in sorted(by_setting, key=lambda key: (places[key[:4]], part.arms.index(key[4]))):
        rows = [by_setting[key][seed] for seed in sorted(by_setting[key])]
        content = {
            **dict(zip(SETTING, key, strict=True)),
            "seeds": [row["seed"] for row in rows],
            "final": [mean(row["accuracies"][-(part.rounds // LAST) :]) for row in rows],
            "steady": [mean(row["accuracies"][STEADY - 1 :]) for row in rows],
            "last": [row["accuracies"][-1] for row in rows],
            "rejected": sum(row["rejected"] for row in rows),
        }
        lines.append(content)
    head = {
        "part": name,
        "benchmark": part.benchmark,
        "rounds": part.rounds,
        "learning_rate": part.learning_rate,
        "seeds": part.seeds,
        "runs": sum(map(len, by_setting.values())),
        "missing": len(part.cells()) - sum(map(len, by_setting.values())),
        "environment": made_on(folder),
    }
    return write(results / f"choosing-{name}.json", head, lines)


def mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 5)
