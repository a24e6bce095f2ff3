"""The paper's own results: Table 2 by our names of benchmarks, and the curves of its figures."""

import json
from functools import cache
from importlib import resources
from typing import Any

CURVES = ("train_loss", "test_accuracy")  # Figures 3 and 6, as fields of a round


@cache
def benchmarks() -> dict[str, Any]:
    """By benchmark: ``title``, ``notes``, ``table_2``: {strategy: {level: [accuracy, time]}}..."""
    return dict(json.loads((resources.files(__package__) / "data" / "paper.json").read_text()))


def title_of(benchmark: str) -> str:
    """A benchmark's name, as the paper writes it where it has it."""
    return str(benchmarks().get(benchmark, {}).get("title", benchmark))


def curves(benchmark: str, stragglers: float) -> dict[str, dict[str, list[list[float]]]]:
    """{strategy: {field: [rounds, values]}}; Synthetic's begin before round 1."""
    return dict(benchmarks().get(benchmark, {}).get("curves", {}).get(f"{stragglers:g}", {}))
