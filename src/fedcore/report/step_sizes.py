"""Every method at its own best step size: which one, and whether a better one may lie outside.

Where several are tried, a method has at each share of stragglers that step size whose final models
are best on the validation half of held-out data, in the mean over seeds; of equals the smallest.
What is reported was measured on the other half.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from fedcore.records import RunKey
from fedcore.report.records import Runs


@dataclass(frozen=True, slots=True)
class Choice:
    """What a method's best step size is, and how good the others were."""

    benchmark: str
    stragglers: float
    strategy: str
    learning_rate: float
    edge: str | None  # 'smallest' or 'largest' where none was tried beyond it
    tried: list[list[float]]  # (step size, mean validation accuracy), from the smallest on


def choices(runs: Runs) -> list[Choice]:
    """One for each method and share of stragglers; none where no step sizes were tried."""
    found: dict[tuple[str, float, str], dict[float, list[float]]] = {}
    for run, rounds in runs.items():
        ending = rounds[-1].ending
        if run.learning_rate is None or ending is None or ending.validation_accuracy is None:
            continue
        rates = found.setdefault((run.benchmark, run.stragglers, run.strategy), {})
        rates.setdefault(run.learning_rate, []).append(ending.validation_accuracy)
    chosen = []
    for method, rates in found.items():
        means = {rate: statistics.fmean(rates[rate]) for rate in sorted(rates)}
        best = max(means, key=means.__getitem__)  # of equals the first
        edge = {min(means): "smallest", max(means): "largest"}.get(best)
        chosen.append(Choice(*method, best, edge, [list(pair) for pair in means.items()]))
    return chosen


def chosen_runs(runs: Runs) -> Runs:
    """The runs that count: of methods with several step sizes, those with the best."""
    best = {(c.benchmark, c.stragglers, c.strategy): c.learning_rate for c in choices(runs)}

    def counts(run: RunKey) -> bool:
        return best.get((run.benchmark, run.stragglers, run.strategy)) in (run.learning_rate, None)

    return {run: rounds for run, rounds in runs.items() if counts(run)}
