"""The ``fedcore`` command: its sub-commands, their help, and how errors are shown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedcore import plugins
from fedcore.cli.data import data_app
from fedcore.cli.options import experiment_from, flowing, with_experiment_options
from fedcore.errors import BadOption, FedCoreError, Interrupted
from fedcore.report.tables import plain_console
from fedcore.version import __version__

app = typer.Typer(
    name="fedcore",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    help=flowing(
        """Federated learning whose rounds end on time: slow clients train on coresets.

        Start with [bold]fedcore compare --out runs/first[/bold]: four ways to deal with slow
        clients on one benchmark, as tables and plots.
        """
    ),
)

app.add_typer(data_app, name="data")

Config = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file with any of these options; the command line wins."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier job in --out.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with an interrupted job in --out.")]
Plots = Annotated[bool, typer.Option("--plots/--no-plots", help="Draw pictures into --out.")]


@app.command()
@with_experiment_options
def compare(
    *,
    out: Annotated[Path, typer.Option("--out", help="New folder for results.")],
    config: Config = None,
    overwrite: Overwrite = False,
    resume: Resume = False,
    plots: Plots = True,
    **given: Any,
) -> None:
    """Train several strategies on the same clients, cohorts and initial model; compare them.

    Each strategy meets the same slow clients. FedAvg waits for them, FedAvg-DS drops them, FedProx
    cuts their epochs short, FedCore gives them a coreset. Times are in units of the deadline: a
    round of 1.00 ends exactly on time.

    [bold]Examples[/bold]

    fedcore compare --benchmark synthetic-1-1 --stragglers 10,30 --rounds 100 --out runs/a

    fedcore compare --preset authors-code --benchmark synthetic-0-0 --out runs/b

    fedcore compare --strategies fedprox,fedcore,./my_method.py --out runs/c
    """
    from fedcore.cli.job import run_job

    experiment = experiment_from(given, config)
    run_job(experiment, out, overwrite=overwrite, resume=resume, plots=plots)


@app.command()
@with_experiment_options
def run(
    *,
    strategy: Annotated[str, typer.Option("--strategy", help="Which one; or a .py file.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="New folder for results; none: only a table.")
    ] = None,
    config: Config = None,
    overwrite: Overwrite = False,
    resume: Resume = False,
    plots: Plots = True,
    **given: Any,
) -> None:
    """Train one strategy.

    [bold]Example[/bold]

    fedcore run --strategy fedcore --stragglers 30 --rounds 20
    """
    from fedcore.cli.job import run_job

    if "," in strategy:
        raise BadOption(
            f"strategy must be one, got {strategy!r}; 'fedcore compare --strategies' takes several"
        )
    experiment = experiment_from({**given, "strategies": strategy}, config)
    run_job(experiment, out, overwrite=overwrite, resume=resume, plots=plots)


@app.command(name="list")
def list_everything() -> None:
    """List benchmarks, strategies, selectors, samplers and models."""
    from fedcore.sources.benchmark import benchmark_names, find

    table = Table("Kind", "Name", "What it is", box=None, padding=(0, 2))
    for name in benchmark_names():
        table.add_row("benchmark", name, (find(name).module.__doc__ or "").split("\n")[0])
    for kind in ("strategy", "selector", "sampler", "model"):
        for name in plugins.names(kind):
            table.add_row(kind, name, plugins.summary(kind, name))
    plain_console().print(table)


@app.callback(invoke_without_command=True)
def version(
    *, show: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False
) -> None:
    """Show the version."""
    if show:
        typer.echo(f"fedcore {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command; what it refuses is one sentence on standard error and exit code 2."""
    try:
        app()
    except FedCoreError as error:
        sentence, code = f"error: {error}", 2
    except (Interrupted, KeyboardInterrupt) as stop:
        sentence, code = str(stop) or "interrupted", 130
    except SystemExit as stop:
        if stop.code != 130:  # then typer has caught an interruption, and says nothing
            raise
        sentence, code = "interrupted", 130
    else:
        return
    print(sentence, file=sys.stderr)
    sys.exit(code)
