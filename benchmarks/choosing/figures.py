"""Paired differences between arms, with 95 % confidence intervals, from condensed results.

Pairs are runs of one seed: same clients, cohorts, initial model and wrong labels. Over several
settings a seed's differences are averaged first, since they are not independent; so n is the number
of seeds, and the interval is mean ± t s / √n, t of n - 1 degrees of freedom.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
Study = dict[str, Any]
Row = dict[str, Any]
# Two-sided 95 % quantiles of Student's t, by degrees of freedom
STUDENT = (math.nan, 12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622)
BASE = "random"
SAME_AT_ONE = ("random-epochs", "partial")  # with E = 1 they are the base


@dataclass(frozen=True)
class Difference:
    """In points: the mean over pairs, and half of its interval's length."""

    mean: float
    half: float
    settings: int = 1

    @property
    def sure(self) -> bool:
        """Whether the interval leaves zero out."""
        return abs(self.mean) > self.half

    def __str__(self) -> str:
        return f"{self.mean:+.1f} ± {self.half:.1f}"


def read(part: str) -> Study | None:
    """What is committed of a part, if anything is."""
    path = RESULTS / f"choosing-{part}.json"
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else None


def setting_of(row: Row) -> tuple[str, str, int, float]:
    return row["condition"], row["schedule"], row["epochs"], row["share"]


def accuracies(study: Study, arm: str, figure: str = "final") -> dict[tuple[Any, ...], float]:
    """In percent, by setting and seed; read once from a study, for pages ask thousands of times."""
    known: dict[tuple[str, str], dict[tuple[Any, ...], float]] = study.setdefault("known", {})
    if (arm, figure) not in known:
        known[arm, figure] = {
            (*setting_of(row), seed): 100 * value
            for row in study["rows"]
            if row["arm"] == arm
            for seed, value in zip(row["seeds"], row[figure], strict=True)
        }
    return known[arm, figure]


def interval(values: Iterable[float]) -> tuple[float, float]:
    """Mean and half of the interval's length of independent values; nan for fewer than two."""
    found = list(values)
    mean = statistics.fmean(found)
    if len(found) < 2:
        return mean, math.nan
    quantile = STUDENT[len(found) - 1] if len(found) <= len(STUDENT) else 1.96
    return mean, quantile * statistics.stdev(found) / math.sqrt(len(found))


def only(**wanted: Any) -> Callable[[tuple[Any, ...]], bool]:
    """Settings that have such a condition, schedule, epochs or share."""
    places = [("condition", "schedule", "epochs", "share").index(name) for name in wanted]
    return lambda setting: [setting[place] for place in places] == [*wanted.values()]


def difference(
    study: Study,
    arm: str,
    other: str = BASE,
    where: Callable[[tuple[Any, ...]], bool] = lambda setting: True,
    figure: str = "final",
) -> Difference | None:
    """An arm against another over the settings that both have and ``where`` takes, if any."""
    one, two = accuracies(study, arm, figure), accuracies(study, other, figure)
    both = [key for key in one if where(key[:-1]) and key in two]
    by_seed: dict[int, list[float]] = {}
    for key in both:
        by_seed.setdefault(key[-1], []).append(one[key] - two[key])
    if not both:
        return None
    mean, half = interval(statistics.fmean(found) for found in by_seed.values())
    return Difference(mean, half, len({key[:-1] for key in both}))


def settings(study: Study) -> list[tuple[str, str, int, float]]:
    """Of all rows, each once, in order."""
    return list(dict.fromkeys(setting_of(row) for row in study["rows"]))


def won_and_lost(study: Study, arm: str, other: str = BASE) -> tuple[int, int, int]:
    """Settings in which an interval leaves zero out, above and below, and how many there are."""
    found = []
    for setting in settings(study):
        named = dict(zip(("condition", "schedule", "epochs", "share"), setting, strict=True))
        one = difference(study, arm, other, only(**named))
        found += [] if one is None else [one]
    ahead = sum(one.sure and one.mean > 0 for one in found)
    return ahead, sum(one.sure and one.mean < 0 for one in found), len(found)
