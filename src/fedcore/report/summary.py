"""The content of ``summary.json``: what every run came to, cost and served, and what produced it.

Seconds are virtual. Rounds on disk are in deadlines, whose length stands in the ``Ending`` of a
run; without one, as in folders of old versions, costs are unknown. Of several step sizes a method
has at each share of stragglers the one whose final models are best on the validation half of
held-out data, in the mean over seeds, of equals the smallest; reported is the other half.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter, itemgetter
from statistics import fmean, median, pstdev
from typing import Any

from fedcore.compression import upward_share
from fedcore.history import History, environment, summarise
from fedcore.records import RoundRecord, RunKey
from fedcore.report.grids import doubling_bins
from fedcore.report.records import Row, Runs, by_level
from fedcore.sources.clients import sizes_of
from fedcore.types import FederatedDataset

NOT_ANSWERED = ("cancelled", "lost")  # of what is wasted; the rest came, and was of no use
SHARES = (0.90, 0.95, 0.99)  # of the best final accuracy: what is a target where none is given
SIZES = ("clients", "samples", "mean", "std", "least", "median", "most")  # of Table 1, and more
METHOD = ("benchmark", "stragglers", "strategy")
Method = tuple[str, float, str]
method_of: Callable[[RunKey], Method] = attrgetter(*METHOD)


def summary(runs: Runs, experiment: Mapping[str, Any]) -> dict[str, Any]:
    """Results of every run that counts, and how step sizes were chosen where several were tried."""
    shown = chosen_runs(runs)
    own, rate = tuple(experiment.get("targets", ())), experiment.get("learning_rate")
    targets = {at: own or targets_of(methods.values()) for at, methods in by_level(shown).items()}
    results = []
    for run, rounds in shown.items():
        at = targets[run.benchmark, run.stragglers]
        cost = costs(rounds, at, experiment.get("compress", "none"))
        found = summarise(run, History(tuple(rounds)))
        results.append({**found, "learning_rate": run.learning_rate or rate, **cost})
    known = {"schema": 1, "experiment": dict(experiment), "environment": environment()}
    return {**known, "step_sizes": choices(runs), "results": results}


def spread(dataset: FederatedDataset) -> Row:
    """How samples are spread over clients: what is counted, Table 1's columns, bins that double."""
    sizes = list(dataset.sizes) or [int(size) for size in sizes_of(dataset.clients).values()]
    known = {"clients": len(sizes), "samples": sum(sizes), "mean": fmean(sizes)}
    known |= {"std": pstdev(sizes), "least": min(sizes), "median": median(sizes)}
    counted = "training and test samples" if dataset.sizes else "training samples"
    return {"counted": counted, **known, "most": max(sizes), "bins": doubling_bins(sizes)}


def choices(runs: Runs) -> list[Row]:
    """The step size of each method at each share of stragglers; none where one was tried."""
    found: dict[Method, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run, (*_, last) in runs.items():
        if run.learning_rate and last.ending and last.ending.validation_accuracy is not None:
            found[method_of(run)][run.learning_rate].append(last.ending.validation_accuracy)
    chosen = []
    for method, rates in found.items():
        means = {rate: fmean(rates[rate]) for rate in sorted(rates)}
        best = max(means, key=means.__getitem__)  # of equals the first
        row: Row = dict(zip(METHOD, method, strict=True))
        row |= {"learning_rate": best, "tried": [list(pair) for pair in means.items()]}
        row["edge"] = {min(means): "smallest", max(means): "largest"}.get(best)
        chosen.append(row)
    return chosen


def chosen_runs(runs: Runs) -> Runs:
    """The runs that count: of methods with several step sizes, those with the best."""
    best = {itemgetter(*METHOD)(row): row["learning_rate"] for row in choices(runs)}
    shown = (run for run in runs if best.get(method_of(run)) in (run.learning_rate, None))
    return {run: runs[run] for run in shown}


def targets_of(strategies: Iterable[Sequence[Sequence[RoundRecord]]]) -> tuple[float, ...]:
    """Default targets: shares of the best final accuracy, medians of seeds, as tables show it."""
    final = [[a for run in runs if (a := run[-1].test_accuracy) is not None] for runs in strategies]
    best = max((median(values) for values in final if values), default=0.0)
    return tuple(share * best for share in SHARES) if best else ()  # 0 is everybody's


def jain(values: Iterable[float], count: int) -> float | None:
    """Jain's (Σ x)² / (n Σ x²) of n clients, others with x = 0; None where all are."""
    known = list(values)
    squares = sum(value * value for value in known)
    return sum(known) ** 2 / (count * squares) if squares else None


def costs(rounds: Sequence[RoundRecord], targets: Sequence[float], compress: str = "none") -> Row:
    """What a run cost and whom it served: time to accuracy, time, bytes, staleness, fairness."""
    ending = rounds[-1].ending
    if ending is None:
        return {}
    sent = [(c, c.seconds / r.deadline) for r in rounds for c in r.clients if c.work > 0]
    whole = [r for r in rounds if not r.cut]  # what a budget ends is neither merged nor wasted
    lost = (c.seconds / r.deadline for r in whole for c in r.clients if c.wasted is not None)
    merged = [c for r in whole for c in r.clients if c.work > 0 and c.wasted is None]
    times = Counter(client.client_id for client in merged for _ in range(client.copies))
    stale = [client.staleness for client in merged]
    unit, known = ending.deadline_seconds, asdict(ending)
    answer = round(ending.model_bytes * upward_share(compress, ending.model_bytes))
    reached = History(tuple(rounds)).time_to
    del known["validation_accuracy"]  # by which the run was chosen, and so no result
    return known | {
        "time_to_accuracy": [
            {"target": target, "seconds": None if time is None else unit * time}
            for target, time in zip(targets, map(reached, targets), strict=True)
        ],
        "virtual_seconds": unit * sum(record.time for record in rounds),
        "client_seconds": unit * sum(time for _, time in sent),
        "wasted_client_seconds": unit * sum(lost),
        "bytes_down": ending.model_bytes * len(sent),
        "bytes_up": sum(c.sent or answer for c, _ in sent if c.wasted not in NOT_ANSWERED),
        "participation_fairness": jain(times.values(), ending.clients),
        "mean_staleness": fmean(stale) if any(stale) else None,
        "largest_staleness": max(stale) if any(stale) else None,
    }
