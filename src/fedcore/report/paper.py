"""The paper's own results: Table 2 by our names of benchmarks, and the curves of its figures."""

import json
from functools import cache
from importlib import resources
from typing import Any

FIGURES = {"train_loss_curves": "train_loss", "test_acc_curves": "test_accuracy"}  # 3 and 6
Curve = tuple[list[int], list[float]]


@cache
def _read(name: str) -> dict[str, Any]:
    return dict(json.loads((resources.files(__package__) / "data" / name).read_text()))


def benchmarks() -> dict[str, Any]:
    """By benchmark: its title, what is to be known of it, {strategy: {level: [accuracy, time]}}."""
    return _read("paper-tables.json")


def title_of(benchmark: str) -> str:
    """A benchmark's name, as the paper writes it where it has it."""
    return str(benchmarks().get(benchmark, {}).get("title", benchmark))


def curves(benchmark: str, stragglers: float) -> dict[str, dict[str, Curve]]:
    """{strategy: {field of a round: rounds and values}}; Synthetic's begin before round 1."""
    found: dict[str, dict[str, Curve]] = {}
    for key, values in _read("paper-curves.json").items():
        figure, panel, level, strategy = key.split("|")
        if (panel, level) == (benchmarks().get(benchmark, {}).get("panel"), f"{stragglers:g}"):
            first = 1 - len(values) % 2
            rounds = list(range(first, len(values) + first))  # of 101, the first is 0
            found.setdefault(strategy.lower(), {})[FIGURES[figure]] = rounds, values
    return found
