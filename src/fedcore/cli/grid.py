"""Run the grid of an experiment - strategies, shares of stragglers, seeds - and write it down.

Needs neither typer nor rich, so that it also runs on machines that have torch and NumPy alone.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from fedcore import plugins
from fedcore.client.executors.by_name import choose_device, choose_executor
from fedcore.config import Experiment
from fedcore.errors import BadOption
from fedcore.report.output import OutputFolder, check_free
from fedcore.report.records import Row, to_row
from fedcore.report.summary import summary
from fedcore.sim.federation import Federation, federation_from_model
from fedcore.sim.rounds import build_strategy, fleet_of, simulate_rounds
from fedcore.sources import benchmark as _benchmark
from fedcore.sources.clients import sizes_of
from fedcore.types import RunKey, TrainingSettings

log = logging.getLogger(__name__)

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
    """Load data and model for every seed; whatever is wrong with the options shows here.

    What a run would only find out later is tried too, since by then results of an earlier job may
    have been replaced: names, device, files of the user's own, fleets.
    """
    _check_names(experiment.strategies)
    device = choose_device(experiment.device, experiment.executor)
    _check_plugin("selector", experiment.selector, "select")
    _check_plugin("model", experiment.model, "build")
    dataset = _benchmark.find(experiment.benchmark).load(
        seed=experiment.data_seed,
        data_dir=Path(experiment.data_dir).expanduser() if experiment.data_dir else None,
        options=experiment.data,
    )
    asked, there = experiment.clients_per_round, len(dataset.clients)
    if experiment.selection != "proportional" and asked > there:  # the draw is without replacement
        log.warning(
            "clients_per_round is %d, but there are %d clients: all of them train in every round",
            asked,
            there,
        )
    federations = {
        seed: federation_from_model(dataset, experiment.model, seed) for seed in experiment.seed
    }
    first = next(iter(federations.values()))
    for strategy in experiment.strategies:
        build_strategy(strategy, experiment, first.proxy)
    for run in runs_of(dataclasses.replace(experiment, strategies=experiment.strategies[:1])):
        fleet_of(sizes_of(dataset.clients), experiment, run)
    if experiment.executor == "compiled":  # the one executor that does not fit every model
        settings = TrainingSettings(experiment.learning_rate, experiment.batch_size)
        choose_executor("compiled", first.task, dataset.clients, settings, threads=1, device=device)
    return federations


def _check_names(strategies: tuple[str, ...]) -> None:
    """Refuse two strategies of one name: results go by it."""
    seen: dict[str, str] = {}
    for strategy in strategies:
        name = strategy_name(strategy)
        if name in seen:
            raise BadOption(
                f"strategies {seen[name]!r} and {strategy!r} would both be called {name!r}; "
                "rename one file"
            )
        seen[name] = strategy


def _check_plugin(kind: str, name: str, function: str) -> None:
    """Refuse a file that cannot be imported, or has not the function it is used for."""
    if not callable(getattr(plugins.load(kind, name), function, None)):
        raise BadOption(
            f"{kind} file {name!r} has no function {function!r}; add one, or use a name"
        )


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
