"""From rounds to one result per run: what ``summary.json`` holds."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from fedcore.records import RunKey
from fedcore.report.records import Row, group
from fedcore.version import __version__

SCHEMA = 1
STEADY = 10  # the paper's accuracies are means over rounds from this one on


def summarise(key: RunKey, rows: Sequence[Row]) -> dict[str, Any]:
    """One run in numbers: accuracies in [0, 1], times in units of the deadline."""
    times = [row["round_time"] for row in rows]
    misses = sum(time > 1 for time in times)
    return {
        "benchmark": key.benchmark,
        "stragglers": key.stragglers,
        "strategy": key.strategy,
        "seed": key.seed,
        "rounds": len(rows),
        **_accuracies("test", rows),
        **_accuracies("train", rows),
        "final_train_loss": rows[-1]["train_loss"],
        "mean_round_time": float(np.mean(times)),
        "max_round_time": max(times),
        "deadline_misses": misses,
        "deadline_miss_share": misses / len(times),
        "mean_participants": float(np.mean([row["participants"] for row in rows])),
        "rejected": sum(row["rejected"] for row in rows),
        "wall_seconds": round(sum(row["wall_seconds"] for row in rows), 3),
    }


def summary(rows: Sequence[Row], experiment: Mapping[str, Any]) -> dict[str, Any]:
    """All results of a comparison, with what produced them."""
    return {
        "schema": SCHEMA,
        "experiment": dict(experiment),
        "environment": environment(),
        "results": [summarise(key, run) for key, run in group(rows).items()],
    }


def environment() -> dict[str, str]:
    """The versions that can change a result."""
    return {
        "fedcore": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "machine": platform.machine(),
    }


def _accuracies(split: str, rows: Sequence[Row]) -> dict[str, float | None]:
    """Final, best, and the mean over rounds >= 10 (the figure of the paper's Table 2)."""
    values = [row[f"{split}_accuracy"] for row in rows]
    if any(value is None for value in values):
        values = []
    steady = [value for row, value in zip(rows, values, strict=False) if row["round"] >= STEADY]
    return {
        f"final_{split}_accuracy": values[-1] if values else None,
        f"best_{split}_accuracy": max(values) if values else None,
        f"mean_{split}_accuracy_from_round_{STEADY}": float(np.mean(steady)) if steady else None,
    }
