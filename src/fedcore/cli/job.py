"""Run the grid of an experiment - strategies, shares of stragglers, seeds - and write it down."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from fedcore.config import Experiment
from fedcore.data import _benchmark
from fedcore.report.output import OutputFolder, check_free
from fedcore.report.records import Row, to_row
from fedcore.report.summary import summary
from fedcore.report.tables import strategy_title, tables
from fedcore.sim.federation import Federation, federation_from_model
from fedcore.sim.rounds import build_strategy, simulate_rounds
from fedcore.types import RunKey

console = Console()
notices = Console(stderr=True)


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
    for strategy in experiment.strategies:
        build_strategy(strategy, experiment, next(iter(federations.values())).proxy)
    return federations


def run_job(
    experiment: Experiment,
    out: Path | None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    plots: bool = True,
) -> dict[str, Any]:
    """Prepare, train, write and show; nothing is written before all options are known good."""
    if out is not None and not resume:
        check_free(out, overwrite=overwrite)
    federations = prepare(experiment)
    settings = dataclasses.asdict(experiment)
    folder = None
    if out is not None:
        folder = (
            OutputFolder.resume(out, settings)
            if resume
            else OutputFolder.create(out, settings, overwrite=overwrite)
        )
    rows = _train_all(experiment, federations, folder)
    content = folder.finish() if folder is not None else summary(rows, settings)
    for table in tables(content["results"]):
        console.print(table)
    if folder is not None:
        _say_where(folder, plots=plots)
    return content


def runs_of(experiment: Experiment) -> Iterator[RunKey]:
    """Every run of an experiment, all strategies of a level together."""
    for stragglers in experiment.stragglers:
        for strategy in experiment.strategies:
            for seed in experiment.seed:
                yield RunKey(experiment.benchmark, strategy_name(strategy), stragglers, seed)


def strategy_name(strategy: str) -> str:
    """How a strategy is called in results: a user's file goes by its name."""
    return Path(strategy).stem if strategy.endswith(".py") else strategy


def _train_all(
    experiment: Experiment, federations: dict[int, Federation], folder: OutputFolder | None
) -> list[Row]:
    sources = {strategy_name(strategy): strategy for strategy in experiment.strategies}
    runs = list(runs_of(experiment))
    rows: list[Row] = []
    with _progress() as progress:
        bar = progress.add_task("", total=len(runs) * experiment.rounds)
        for run in runs:
            label = f"{strategy_title(run.strategy)}, {run.stragglers:g} % stragglers"
            if len(experiment.seed) > 1:
                label += f", seed {run.seed}"
            progress.update(bar, description=label)
            done, params = folder.position(run, experiment.rounds) if folder else (0, None)
            progress.advance(bar, done)
            start = (done, params if params is not None else federations[run.seed].initial)
            federation = federations[run.seed]
            strategy = build_strategy(sources[run.strategy], experiment, federation.proxy)
            rounds = simulate_rounds(federation, experiment, run, strategy=strategy, start=start)
            for record, params in rounds:
                row = to_row(run, record)
                rows.append(row)
                if folder is not None:
                    folder.add(row, run, params)
                progress.advance(bar)
            if not notices.is_terminal:
                notices.print(f"{label}: {experiment.rounds} rounds done")
    return rows


def _progress() -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds"),
        TimeRemainingColumn(),
        console=notices,
        transient=True,
        disable=not notices.is_terminal,
    )


def _say_where(folder: OutputFolder, *, plots: bool) -> None:
    written = ["summary.json", "rounds.jsonl"]
    if plots:
        try:
            from fedcore.report.plots import draw_all

            written += [path.name for path in draw_all(folder.rows, folder.path)]
        except ImportError:
            notices.print("No plots: matplotlib is missing; pip install 'fedcore[plots]'.")
    console.print(f"Written to {folder.path}: {', '.join(written)}", soft_wrap=True)
