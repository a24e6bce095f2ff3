"""How soon a method is as good as FedAvg, nearly: ``python -m benchmarks.stragglers.race``.

From the rounds of the study, at every step size: deadlines until 95 % of the accuracy that FedAvg
has after 100 rounds without a deadline, with the same seed (preset `paper`, synthetic.json). Every
method has the step size of its own with the shortest median.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.stragglers.figures import RESULTS, middle
from benchmarks.stragglers.settings import METHODS, PARTS, experiment_of
from benchmarks.tables import table
from fedcore.cli.grid import runs_of
from fedcore.report.records import read_runs

BENCHMARK, SHARE, ENOUGH = "synthetic-1-1", 0.95, 1.1
RESULT = RESULTS / "stragglers-race.json"
SHOWN = 12  # rows of a table


def fedavg() -> dict[int, float]:
    """FedAvg's final accuracy by seed."""
    rows = json.loads((RESULTS / "synthetic.json").read_text("utf-8"))["results"]["paper"]
    wanted = (BENCHMARK, "fedavg", 30)
    return {
        row["seed"]: row["final_test_accuracy"]
        for row in rows
        if (row["benchmark"], row["strategy"], row["stragglers"]) == wanted
    }


def race(folder: Path, fleet: str) -> Iterator[tuple[str, float, list[float | None]]]:
    """Of every method that was run its best step size, and the deadlines that each seed takes."""
    targets = {seed: SHARE * accuracy for seed, accuracy in fedavg().items()}
    for name in PARTS[BENCHMARK].methods:
        experiment = experiment_of(BENCHMARK, fleet, name)
        path = folder / BENCHMARK / fleet / name / "rounds.jsonl"
        if not path.exists():
            continue
        expected = list(runs_of(experiment))
        found: dict[float, list[float]] = {}
        for key, rounds in read_runs(path, expected, experiment.most_rounds).items():
            passed = 0.0
            for record in rounds:
                passed += record.time
                if (record.test_accuracy or 0.0) >= targets[key.seed]:
                    break
            else:
                passed = math.inf
            assert key.learning_rate is not None
            found.setdefault(key.learning_rate, []).append(passed)
        rate = min(found, key=lambda rate: (statistics.median(found[rate]), max(found[rate])))
        yield name, rate, [round(t, 2) if math.isfinite(t) else None for t in found[rate]]


def condense(folder: Path, result: Path = RESULT) -> None:
    """Write the race anew; methods that the file has and ``folder`` does not stay."""
    content: dict[str, Any] = {"benchmark": BENCHMARK, "share": SHARE, "fleets": {}}
    before = json.loads(result.read_text("utf-8"))["fleets"] if result.exists() else {}
    for fleet in PARTS[BENCHMARK].fleets:
        rows = {row["method"]: row for row in before.get(fleet, [])}
        for method, rate, deadlines in race(folder, fleet):
            rows[method] = {"method": method, "learning_rate": rate, "deadlines": deadlines}
        there = [rows[name] for name in PARTS[BENCHMARK].methods if name in rows]
        content["fleets"][fleet] = there
    lines = json.dumps(content, indent=1)
    result.write_text(lines + "\n", encoding="utf-8")


def ordered(rows: list[dict[str, Any]]) -> list[tuple[str, float, list[float]]]:
    """(method, step size, deadlines of every seed), the soonest first."""
    every = [
        (
            row["method"],
            row["learning_rate"],
            [math.inf if t is None else t for t in row["deadlines"]],
        )
        for row in rows
    ]
    return sorted(every, key=lambda one: (statistics.median(one[2]), max(one[2])))


def section() -> str:
    """Of the page: who is there soonest in each fleet, and how far behind Tempo is."""
    content = json.loads(RESULT.read_text("utf-8"))
    parts, told = [], []
    for fleet, rows in content["fleets"].items():
        every = ordered(rows)
        medians = {name: statistics.median(times) for name, _, times in every}
        best = every[0][0]
        behind = medians["tempo"] / medians[best]
        verdict = "within" if behind <= ENOUGH else "not within"
        told.append(
            f"on `{fleet}` Tempo takes {medians['tempo']:.1f} deadlines, {behind:.2f} times the "
            f"{medians[best]:.1f} of {METHODS[best].title} ({verdict} {ENOUGH:g})"
        )
        cells = [
            [
                METHODS[name].title,
                f"{rate:g}",
                middle(times) if math.isfinite(max(times)) else f"{medians[name]:.1f}, not in all",
                f"{medians[name] / medians[best]:.2f}",
            ]
            for name, rate, times in every[:SHOWN]
            if math.isfinite(medians[name])
        ]
        head = ["method", "step size", "deadlines", "times the soonest"]
        parts.append(f"Fleet `{fleet}`:\n\n{table(head, cells)}\n")
    words = "; ".join(told)
    words = f"{words[0].upper()}{words[1:]}. The first {SHOWN}; medians over seeds, and ranges."
    words = textwrap.fill(words, width=100, break_on_hyphens=False)
    tables = "\n".join(parts)
    return f"""## How soon as good as FedAvg

Deadlines until {100 * SHARE:g} % of the accuracy that FedAvg has after 100 rounds without one
(preset `paper`, the same seed), each method with the step size that makes its own time shortest.
{words}

{tables}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/stragglers"))
    condense(parser.parse_args().out)


if __name__ == "__main__":
    main()
