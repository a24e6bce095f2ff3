"""What the charts of a page show, as values that JSON can hold; times are in deadlines."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from statistics import fmean, median
from typing import Any

import numpy as np

from fedcore.records import RoundRecord
from fedcore.report import paper
from fedcore.report.grids import strategy_title
from fedcore.report.page.jobs import Level
from fedcore.report.plots import SHOWN, spans
from fedcore.types import Way

MOST_POINTS, MOST_VALUES, MOST_CLIENTS = 400, 4000, 40  # of a curve, a violin, a timeline
Rounds = Sequence[RoundRecord]
Firsts = Mapping[str, Rounds]  # by strategy, the rounds of one run
Span = tuple[str, float | None, float | None]  # what, from, to


def charts(level: Level) -> dict[str, Any]:
    """All charts of a level, of runs whose rounds are kept; some are of the first seed alone."""
    runs: dict[str, list[Rounds]] = {}
    for run in (run for run in level.runs if run["records"]):
        runs.setdefault(run["strategy"], []).append(run["records"])
    firsts = {name: own[0] for name, own in runs.items()}
    return {
        "title": level.title,
        "options": level.variant,
        "benchmark": paper.title_of(level.benchmark),
        "curves": {name: [curve(run) for run in own] for name, own in runs.items()},
        "paper": paper.curves(level.benchmark, level.stragglers),
        "times": {name: violin(own) for name, own in runs.items()},
        "steps": steps(firsts, level.runs[0]["job"].content["experiment"]),
        "ways": ways(firsts),
        "timeline": {strategy_title(name): timeline(run) for name, run in firsts.items()},
    }


def curve(rounds: Rounds) -> dict[str, list[float | None]]:
    """A run over rounds and over time; ε is the mean over the coresets of a round."""
    errors = ([c.gradient_error for c in r.clients if c.gradient_error is not None] for r in rounds)
    found: dict[str, list[Any]] = {"round": [record.number for record in rounds]}
    found["time"] = np.cumsum([record.time for record in rounds]).tolist()
    found |= {name: [getattr(r, name) for r in rounds] for name in paper.CURVES}
    found["epsilon"] = [fmean(known) if known else None for known in errors]
    every, measured = range(len(rounds)), [n for n, r in enumerate(rounds) if r.measured]
    thin = (own[:: math.ceil(len(own) / MOST_POINTS) or 1] for own in (every, measured))
    kept = sorted({*chain(*thin), len(rounds) - 1})
    return {name: [_short(values[n]) for n in kept] for name, values in found.items()}


def violin(runs: Sequence[Rounds]) -> dict[str, Any]:
    """Times of clients, and their logarithms' density by Gaussian kernels of Scott's width."""
    records = (record for rounds in runs for record in rounds)
    times = [c.seconds / r.deadline for r in records for c in r.clients if c.seconds > 0]
    if not times:
        return {}
    logs = np.sort(np.log10(times))[:: len(times) // MOST_VALUES + 1]
    width = max(float(logs.std()) * len(logs) ** -0.2, 0.01)
    at = np.linspace(logs[0], logs[-1], 60)
    density = np.exp(-0.5 * ((at[:, None] - logs) / width) ** 2).sum(axis=1)
    shape = [[_short(10**x), _short(y)] for x, y in zip(at, density / density.max(), strict=True)]
    return {"shape": shape, "median": _short(median(times)), "most": _short(max(times))}


def steps(firsts: Firsts, options: Mapping[str, Any]) -> dict[str, list[tuple[int, int]]]:
    """Of slow clients, the epochs that FedProx has time for, and gradient steps (Figure 5).

    An epoch takes ⌈m / B⌉ steps on all samples and ⌈b / B⌉ on a coreset; m is as FedAvg has it.
    """
    jobs = {name: {c.client_id: c for r in own for c in r.clients} for name, own in firsts.items()}
    found: dict[str, list[tuple[int, int]]] = {"fedprox": [], "fedcore": []}
    for client, core in jobs.get("fedcore", {}).items():
        whole, prox = (jobs.get(name, {}).get(client) for name in ("fedavg", "fedprox"))
        if whole and prox and core.coreset_size:
            m, batch = whole.work // options["epochs"], options["batch_size"]
            full, fitting = m if core.path is Way.CORESET else 0, prox.work // m
            # Who looks at all samples first, or pays for the choice, works for more than its steps.
            epochs = min((core.work - full) // core.coreset_size, options["epochs"] - bool(full))
            later = epochs * math.ceil(core.coreset_size / batch)
            found["fedprox"].append((fitting, fitting * math.ceil(m / batch)))
            found["fedcore"].append((fitting, math.ceil(full / batch) + later))
    return found


def ways(firsts: Firsts) -> dict[str, list[Span]]:
    """By strategy, the way that clients went mostly; clients are places, from slow to fast."""
    records = (record for rounds in firsts.values() for record in rounds)
    times = sorted((c.seconds / r.deadline, c.client_id) for r in records for c in r.clients)
    order = list(dict.fromkeys(client for _, client in reversed(times)))
    found: dict[str, list[Span]] = {}
    for name, rounds in firsts.items():
        went = Counter((c.client_id, str(c.path)) for record in rounds for c in record.clients)
        mostly = {client: path for (client, path), _ in reversed(went.most_common())}
        every = enumerate(mostly.get(client, "not drawn") for client in order)
        equal = ((way, [*pairs]) for way, pairs in groupby(every, key=itemgetter(1)))
        found[strategy_title(name)] = [(way, own[0][0], own[-1][0] + 1) for way, own in equal]
    return found


def timeline(rounds: Rounds) -> dict[str, list[Span]]:
    """By client, of those who come first, what it does from when to when."""
    found: dict[str, list[Span]] = {}
    for client, what, start, end in spans(rounds):
        name = f"client {client}"
        if start < SHOWN and (name in found or len(found) < MOST_CLIENTS):
            found.setdefault(name, []).append((what, _short(start), _short(end)))
    return found


def _short(value: float | None) -> float | None:
    """Five digits; JSON has no NaN and no infinity."""
    return float(f"{value:.5g}") if value is not None and math.isfinite(value) else None
