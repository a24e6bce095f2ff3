"""Orderings that papers report, beside ours: shown, refuted, or undecided by these seeds."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from benchmarks.stragglers.condense import FIXED
from benchmarks.stragglers.figures import (
    Result,
    Study,
    accuracy,
    middle,
    results_of,
    time_to,
    values,
)


@dataclass(frozen=True)
class Ordering:
    """That one method is better than another, by what its paper measures."""

    one: str
    other: str
    by: str  # "accuracy" or "time"
    claim: str


ORDERINGS = (
    Ordering(
        *("fednova", "partial", "accuracy"),
        "FedNova over FedAvg with unequal epochs (Wang et al. 2020), final accuracy",
    ),
    Ordering(
        *("fedbuff", "fedavg", "time"),
        "FedBuff over synchronous FedAvg (Nguyen et al. 2022), time to accuracy",
    ),
    Ordering(
        *("oort", "fedavg-uniform", "accuracy"),
        "Oort over random draws (Lai et al. 2021), final accuracy",
    ),
    Ordering(
        *("oort", "fedavg-uniform", "time"),
        "Oort over random draws (Lai et al. 2021), time to accuracy",
    ),
)


def ahead(study: Study, ordering: Ordering) -> tuple[int, int, int]:
    """Seeds in which the first is better, in which it is worse, and how many there are.

    By time, whoever comes first to the highest of the fixed targets that either reaches is better.
    """
    one, other = (results_of(study, name) for name in (ordering.one, ordering.other))
    pairs = [figures(ordering.by, a, b) for a, b in zip(one, other, strict=True)]
    return sum(a > b for a, b in pairs), sum(a < b for a, b in pairs), len(pairs)


def figures(by: str, one: Result, other: Result) -> tuple[float, float]:
    """Of a seed of both methods, the larger the better."""
    if by == "accuracy":
        return accuracy(one), accuracy(other)
    target = max(reached([one, other]), default=None)
    if target is None:
        return 0.0, 0.0
    return -time_to(one, target), -time_to(other, target)


def reached(results: list[Result]) -> list[float]:
    """Those of the fixed targets that any of some runs reaches."""
    return [t for t in FIXED if any(math.isfinite(time_to(one, t)) for one in results)]


def verdict(study: Study, ordering: Ordering) -> str:
    better, worse, seeds = ahead(study, ordering)
    if better == seeds:
        return "shown"
    return "refuted" if worse == seeds else "undecided"


def row(study: Study, ordering: Ordering) -> list[str]:
    """A line of the table: who, by what, how much, in how many seeds."""
    better, worse, seeds = ahead(study, ordering)
    if ordering.by == "accuracy":
        cells = [
            middle(values(study, name, "final_test_accuracy", 100))
            for name in (ordering.one, ordering.other)
        ]
    else:
        cells = [times(study, ordering, name) for name in (ordering.one, ordering.other)]
    told = f"{better} better, {worse} worse of {seeds}"
    return [ordering.claim, study["fleet"], *cells, told, verdict(study, ordering)]


def times(study: Study, ordering: Ordering, name: str) -> str:
    """Median times to the highest two fixed targets that either method reaches in any seed."""
    every = [*results_of(study, ordering.one), *results_of(study, ordering.other)]
    cells = []
    for target in reached(every)[-2:]:
        found = [time_to(one, target) for one in results_of(study, name)]
        half = statistics.median(found)
        shown = f"{half:.1f}" if math.isfinite(half) else "never"
        cells.append(f"{100 * target:.0f} %: {shown}")
    return ", ".join(cells) or "none reached"
