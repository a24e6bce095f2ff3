"""The content of ``summary.json``: all results of a comparison, with what produced them."""

from collections.abc import Mapping
from typing import Any

from fedcore.history import History, environment, summarise
from fedcore.report.costs import costs, targets_of
from fedcore.report.records import Runs, by_level
from fedcore.report.step_sizes import choices, chosen_runs


def summary(runs: Runs, experiment: Mapping[str, Any]) -> dict[str, Any]:
    """Results of every run that counts, and how step sizes were chosen where several were tried."""
    shown = chosen_runs(runs)
    targets = {
        level: tuple(experiment.get("targets", ())) or targets_of(methods.values())
        for level, methods in by_level(shown).items()
    }
    results = [
        {
            **summarise(run, History(tuple(rounds))),
            "learning_rate": run.learning_rate or experiment.get("learning_rate"),
            **costs(rounds, targets[run.benchmark, run.stragglers]),
        }
        for run, rounds in shown.items()
    ]
    return {
        "schema": 1,
        "experiment": dict(experiment),
        "environment": environment(),
        "step_sizes": choices(runs),
        "results": results,
    }
