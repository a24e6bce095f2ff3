"""From rounds to one result per run: what ``summary.json`` holds."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from fedcore.history import STEADY, History
from fedcore.records import RunKey
from fedcore.report.records import Runs
from fedcore.version import __version__

SCHEMA = 1


def summarise(run: RunKey, history: History) -> dict[str, Any]:
    """One run in numbers: accuracies in [0, 1], times in units of the deadline."""
    rounds = history.rounds
    return {
        "benchmark": run.benchmark,
        "stragglers": run.stragglers,
        "strategy": run.strategy,
        "seed": run.seed,
        "rounds": len(rounds),
        "final_test_accuracy": history.final_test_accuracy,
        "best_test_accuracy": history.best_test_accuracy,
        f"mean_test_accuracy_from_round_{STEADY}": history.steady_accuracy("test"),
        "final_train_accuracy": rounds[-1].train_accuracy,
        "best_train_accuracy": max(history.accuracies("train"), default=None),
        f"mean_train_accuracy_from_round_{STEADY}": history.steady_accuracy("train"),
        "final_train_loss": history.final_train_loss,
        "mean_round_time": history.mean_round_time,
        "max_round_time": history.longest_round,
        "deadline_misses": history.deadline_misses,
        "deadline_miss_share": history.deadline_misses / len(rounds),
        "mean_participants": statistics.fmean(
            sum(client.work > 0 for client in record.clients) for record in rounds
        ),
        "rejected": sum(record.rejected for record in rounds),
        "fell_back": sum(client.fell_back for record in rounds for client in record.clients),
        "wall_seconds": round(sum(record.wall_seconds for record in rounds), 3),
    }


def summary(runs: Runs, experiment: Mapping[str, Any]) -> dict[str, Any]:
    """All results of a comparison, with what produced them."""
    return {
        "schema": SCHEMA,
        "experiment": dict(experiment),
        "environment": environment(),
        "results": [summarise(run, History(tuple(rounds))) for run, rounds in runs.items()],
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
