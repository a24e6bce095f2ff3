"""The runs of a part as one small file: a line per setting and arm, an accuracy per seed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.choosing.pieces import lines_of, made_on, write
from benchmarks.choosing.settings import PARTS
from fedcore.history import STEADY

Row = Mapping[str, Any]
FIGURES = ("final", "steady", "last")
SETTING = ("condition", "schedule", "epochs", "share", "arm")
LAST = 10  # one in so many rounds makes the end, whose mean is the accuracy reported


def key_of(row: Row) -> tuple[Any, ...]:
    """What tells runs apart."""
    return (*(row[name] for name in SETTING), row["seed"])


def condense(name: str, folder: Path, results: Path) -> Path | None:
    """Write what is done of a part, if anything is; runs that the file has of others stay."""
    part, path = PARTS[name], results / f"choosing-{name}.json"
    done = {
        key_of(row): figures_of(row)
        for row in lines_of(folder)
        if len(row["accuracies"]) == part.rounds
    }
    if not done:
        return None
    before = json.loads(path.read_text("utf-8")) if path.exists() else {"rows": []}
    known = {key: run for row in before["rows"] for key, run in runs_of(row) if key not in done}
    makers = [*before.get("before", ()), before["environment"]] if known else []
    own = made_on(folder)
    places = {setting: place for place, setting in enumerate(part.settings())}
    by_setting: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for (*setting, seed), run in sorted((known | done).items(), key=lambda one: one[0][-1]):
        by_setting[*setting].append({"seeds": seed, **run})
    lines = []
    for key in sorted(by_setting, key=lambda key: (places[key[:4]], part.arms.index(key[4]))):
        runs = by_setting[key]
        line = {**dict(zip(SETTING, key, strict=True)), "seeds": [run["seeds"] for run in runs]}
        line |= {figure: [run[figure] for run in runs] for figure in FIGURES}
        lines.append({**line, "rejected": sum(run["rejected"] for run in runs)})
    head = {
        "part": name,
        "benchmark": part.benchmark,
        "rounds": part.rounds,
        "learning_rate": part.learning_rate,
        "seeds": part.seeds,
        "runs": len(known | done),
        "missing": len(part.cells()) - len(known | done),
        "environment": own,
    }
    if others := [one for one in makers if one != own]:
        head["before"] = others  # who made some of the runs
    return write(path, head, lines)


def figures_of(row: Row) -> dict[str, Any]:
    """What is kept of a run."""
    accuracies = row["accuracies"]
    return {
        "final": mean(accuracies[-(len(accuracies) // LAST) :]),
        "steady": mean(accuracies[STEADY - 1 :]),
        "last": accuracies[-1],
        "rejected": row["rejected"],
    }


def runs_of(line: Row) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The runs of a line of results; what was rejected in any of them counts for the first."""
    setting, left = tuple(line[name] for name in SETTING), line["rejected"]
    for place, seed in enumerate(line["seeds"]):
        figures = {figure: line[figure][place] for figure in FIGURES}
        yield (*setting, seed), {**figures, "rejected": 0 if place else left}


def mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 5)
