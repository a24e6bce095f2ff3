"""Run the grid of an experiment - strategies, shares of stragglers, seeds - and write it down.

Needs neither typer nor rich, so that it also runs on machines that have torch and NumPy alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from fedcore.config import Experiment
from fedcore.data import _benchmark
from fedcore.data._clients import sizes_of
from fedcore.report.output import OutputFolder, check_free
from fedcore.report.records import Row, to_row
from fedcore.report.summary import summary
from fedcore.sim.federation import Federation, federation_from_model
from fedcore.sim.rounds import build_strategy, fleet_of, simulate_rounds
from fedcore.types import RunKey

Tell = Callable[[RunKey, int], None]  # which run, how many of its rounds are done


def run_grid(
    experiment: Experiment,
    out: Path | None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    tell: Tell = lambda run, done: None,
) -> tuple[dict[str, Any], list[Row]]:
    """Prepare, train and write; nothing is written before all options are known good.

    Returns:
        The content of ``summary.json``, and all rounds.
    """
    # Steps are small: a second thread inside one costs more than it brings. Clients are trained
    # side by side instead (--threads).
    torch.set_num_threads(1)
    if out is not None and not resume:
        check_free(out, overwrite=overwrite)
    federations = prepare(experiment)
    settings = dataclasses.asdict(experiment)
    folder = None
    if out is not None and resume:
        folder = OutputFolder.resume(out, settings)
    elif out is not None:
        folder = OutputFolder.create(out, settings, overwrite=overwrite)
    rows = [
        row
        for run in runs_of(experiment)
        for row in _run(run, experiment, federations, folder, tell)
    ]
    if folder is None:
        return summary(rows, settings), rows
    return folder.finish(), folder.rows


def prepare(experiment: Experiment) -> dict[int, Federation]:
    """Load data and model for every seed; whatever is wrong with the options shows here."""
    dataset = _benchmark.find(experiment.benchmark).load(
        seed=experiment.data_seed,
        data_dir=Path(experiment.data_dir).expanduser() if experiment.data_dir else None,
        options=experiment.data,
    )
    federations = {
        seed: federation_from_model(dataset, experiment.model, seed) for seed in experiment.seed
    }
    fleet_of(sizes_of(dataset.clients), experiment, next(runs_of(experiment)))
    for strategy in experiment.strategies:
        build_strategy(strategy, experiment, next(iter(federations.values())).proxy)
    return federations


def runs_of(experiment: Experiment) -> Iterator[RunKey]:
    """Every run of an experiment, all strategies of a level together."""
    for stragglers in experiment.stragglers:
        for strategy in experiment.strategies:
            for seed in experiment.seed:
                yield RunKey(experiment.benchmark, strategy_name(strategy), stragglers, seed)


def strategy_name(strategy: str) -> str:
    """How a strategy is called in results: a user's file goes by its name."""
    return Path(strategy).stem if strategy.endswith(".py") else strategy


def _run(
    run: RunKey,
    experiment: Experiment,
    federations: dict[int, Federation],
    folder: OutputFolder | None,
    tell: Tell,
) -> Iterator[Row]:
    """The rounds of one run that are not done yet."""
    federation = federations[run.seed]
    source = next(s for s in experiment.strategies if strategy_name(s) == run.strategy)
    strategy = build_strategy(source, experiment, federation.proxy)
    done, params = folder.position(run, experiment.rounds) if folder else (0, None)
    tell(run, done)
    if done == experiment.rounds:
        return
    start = (done, federation.initial if params is None else params)
    with closing(
        simulate_rounds(federation, experiment, run, strategy=strategy, start=start)
    ) as rounds:
        for record, model in rounds:
            row = to_row(run, record)
            if folder is not None:
                folder.add(row, run, model)
            tell(run, record.number)
            yield row
