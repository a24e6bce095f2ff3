"""Every method at its own best step size: which one, and whether a better one may lie outside.

Where several are tried, a method has at each share of stragglers that step size whose final models
are best on the validation half of held-out data, in the mean over seeds; of equals the smallest.
What is reported was measured on the other half.
"""

import statistics

from fedcore.report.records import Row, Runs


def choices(runs: Runs) -> list[Row]:
    """One for each method and share of stragglers, as in ``summary.json``; none without a grid."""
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
        row: Row = dict(zip(("benchmark", "stragglers", "strategy"), method, strict=True))
        row |= {"learning_rate": best, "tried": [list(pair) for pair in means.items()]}
        row["edge"] = {min(means): "smallest", max(means): "largest"}.get(best)
        chosen.append(row)
    return chosen


def chosen_runs(runs: Runs) -> Runs:
    """The runs that count: of methods with several step sizes, those with the best."""
    names = ("benchmark", "stragglers", "strategy")
    best = {tuple(row[name] for name in names): row["learning_rate"] for row in choices(runs)}
    return {
        run: rounds
        for run, rounds in runs.items()
        if best.get((run.benchmark, run.stragglers, run.strategy)) in (run.learning_rate, None)
    }
