"""A job on a terminal: progress while it trains, then tables and pictures."""

from pathlib import Path
from typing import Any

from rich import progress as bars

from fedcore.cli.grid import run_grid, runs_of
from fedcore.config import Experiment
from fedcore.errors import BadOption, Interrupted
from fedcore.records import RunKey
from fedcore.report.grids import counted, strategy_title
from fedcore.report.output import PAGE, PICTURES
from fedcore.report.page import write_page
from fedcore.report.page.jobs import Job
from fedcore.report.plots import draw_all
from fedcore.report.summary import chosen_runs
from fedcore.report.tables import everything, plain_console

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
    if overwrite and resume:
        both = "overwrite replaces the job in --out and resume goes on with it"
        raise BadOption(f"{both}; leave out one of them")
    if out is None and (overwrite or resume):
        name = "overwrite" if overwrite else "resume"
        raise BadOption(f"{name} needs the folder of an earlier job; name it with --out")
    order: dict[RunKey, int] = {}  # those that were told of, by their order
    label = bars.TextColumn("{task.description}", markup=False)
    unit = bars.TextColumn("deadlines" if experiment.time_budget else "rounds")
    so_far = bars.SpinnerColumn(), label, bars.BarColumn(), bars.MofNCompleteColumn()
    parts, off = (*so_far, unit, bars.TimeRemainingColumn()), not notices.is_terminal
    progress = bars.Progress(*parts, console=notices, transient=True, disable=off)
    every = len(list(runs_of(experiment, experiment.stragglers or (0.0,))))
    length = experiment.time_budget or experiment.rounds  # of a run
    bar = progress.add_task("preparing", total=every * length)

    def tell(run: RunKey, done: int, share: float) -> None:
        label = f"{strategy_title(run.strategy)}, {run.stragglers:g} % stragglers"
        if run.learning_rate is not None:
            label += f", step size {run.learning_rate:g}"
        if len(experiment.seed) > 1:
            label += f", seed {run.seed}"
        completed = (order.setdefault(run, len(order)) + share) * length
        progress.update(bar, description=label, completed=completed)
        if share == 1 and not notices.is_terminal:
            notices.print(f"{label}: {counted(done, 'round')} done")

    try:
        with progress:
            content, runs = run_grid(experiment, out, overwrite=overwrite, resume=resume, tell=tell)
    except KeyboardInterrupt:
        way = "--resume in place of --overwrite" if overwrite else "--resume"
        told = f"the same command with {way} goes on from here"
        written = out is not None and (resume or order)
        raise Interrupted(f"interrupted; {told if written else 'nothing was written'}") from None
    for part in everything(content):
        console.print(part, soft_wrap=isinstance(part, str))
    if out is not None:
        files = ["summary.json", "rounds.jsonl", "events.jsonl"]
        if plots:
            try:
                draw_all(chosen_runs(runs), out)
                files += PICTURES
            except ImportError:
                notices.print("No plots: install FedCore with its extra 'plots', for matplotlib.")
        write_page([Job(out, content, runs)], out)
        console.print(f"Written to {out}: {', '.join([*files, PAGE])}", soft_wrap=True)
    return content
