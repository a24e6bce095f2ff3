"""A job on a terminal: progress while it trains, then tables and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from fedcore.cli.consoles import plain_console
from fedcore.cli.grid import run_grid, runs_of
from fedcore.config import Experiment
from fedcore.errors import Interrupted
from fedcore.records import RunKey
from fedcore.report.records import Runs
from fedcore.report.tables import counted, remarks, strategy_title, tables

console = plain_console()
notices = plain_console(stderr=True)


def run_job(
    experiment: Experiment,
    out: Path | None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    plots: bool = True,
) -> dict[str, Any]:
    """Train everything, showing how far it is; then show what came out."""
    runs = list(runs_of(experiment))
    began = False
    with _progress() as progress:
        bar = progress.add_task("preparing", total=len(runs) * experiment.rounds)

        def tell(run: RunKey, done: int) -> None:
            nonlocal began
            began = True
            label = f"{strategy_title(run.strategy)}, {run.stragglers:g} % stragglers"
            if len(experiment.seed) > 1:
                label += f", seed {run.seed}"
            completed = runs.index(run) * experiment.rounds + done
            progress.update(bar, description=label, completed=completed)
            if done == experiment.rounds and not notices.is_terminal:
                notices.print(f"{label}: {counted(done, 'round')} done")

        try:
            content, found = run_grid(
                experiment, out, overwrite=overwrite, resume=resume, tell=tell
            )
        except KeyboardInterrupt:
            if out is None or not (began or resume):
                raise Interrupted("interrupted; nothing was written") from None
            way = "--resume in place of --overwrite" if overwrite else "--resume"
            raise Interrupted(
                f"interrupted; the same command with {way} goes on from here"
            ) from None
    for table in tables(content["results"]):
        console.print(table)
    for sentence in remarks(content["results"]):
        console.print(sentence, soft_wrap=True)
    if out is not None:
        _say_where(out, found, plots=plots)
    return content


def _progress() -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds"),
        TimeRemainingColumn(),
        console=notices,
        transient=True,
        disable=not notices.is_terminal,
    )


def _say_where(out: Path, runs: Runs, *, plots: bool) -> None:
    written = ["summary.json", "rounds.jsonl"]
    if plots:
        try:
            from fedcore.report.plots import draw_all

            written += [path.name for path in draw_all(runs, out)]
        except ImportError:
            notices.print("No plots: matplotlib is missing; pip install 'fedcore[plots]'.")
    console.print(f"Written to {out}: {', '.join(written)}", soft_wrap=True)
