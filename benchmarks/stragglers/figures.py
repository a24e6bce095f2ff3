"""Figures of a part's results: medians over seeds, times to targets, one method beside another."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
Result = dict[str, Any]  # of a seed
Study = dict[str, Any]  # of a fleet


def read(benchmark: str, fleet: str) -> Study | None:
    """What is committed of a benchmark and fleet, if anything is."""
    path = RESULTS / f"stragglers-{benchmark}-{fleet}.json"
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else None


def results_of(study: Study, name: str) -> list[Result]:
    """One for each seed."""
    found: list[Result] = study["methods"][name]["results"]
    return found


def title_of(study: Study, name: str) -> str:
    return str(study["methods"][name]["title"])


def values(study: Study, name: str, key: str, scale: float = 1) -> list[float]:
    """A figure of every seed that has it."""
    return [scale * one[key] for one in results_of(study, name) if one[key] is not None]


def final(study: Study, name: str) -> float:
    """Median final accuracy in percent."""
    return statistics.median(values(study, name, "final_test_accuracy", 100))


def ranking(study: Study) -> list[str]:
    """Methods by final accuracy, best first."""
    return sorted(study["methods"], key=lambda name: -final(study, name))


def middle(found: list[float], digits: int = 1) -> str:
    """Median, with the range where seeds differ."""
    if not found:
        return "-"
    text, low, high = (
        f"{value:.{digits}f}" for value in (statistics.median(found), min(found), max(found))
    )
    return text if low == high else f"{text} ({low}-{high})"


def time_to(result: Result, target: float) -> float:
    """Deadlines until a target of the file is met; infinity: it is not reached."""
    for one in result["time_to_accuracy"]:
        if math.isclose(one["target"], target, rel_tol=1e-4):
            seconds = one["seconds"]
            return math.inf if seconds is None else seconds / result["deadline_seconds"]
    raise KeyError(target)


def times_to(study: Study, name: str, target: float) -> list[float]:
    return [time_to(one, target) for one in results_of(study, name)]


def shown_time(times: list[float]) -> str:
    """Median over seeds, and in how many of them the target is reached, where not in all."""
    reached = sum(math.isfinite(time) for time in times)
    if not reached:
        return "not reached"
    some = "" if reached == len(times) else f" ({reached} of {len(times)})"
    half = statistics.median(times)
    return f"{half:.1f}{some}" if math.isfinite(half) else f"not reached{some}"


def wins(
    study: Study, one: str, other: str, figure: Callable[[Result], float]
) -> tuple[int, int, int]:
    """Seeds in which a figure of one method is above that of another, below, and how many."""
    pairs = [
        (figure(a), figure(b))
        for a, b in zip(results_of(study, one), results_of(study, other), strict=True)
    ]
    return sum(a > b for a, b in pairs), sum(a < b for a, b in pairs), len(pairs)


def accuracy(result: Result) -> float:
    """Final, in percent."""
    return 100 * float(result["final_test_accuracy"])
