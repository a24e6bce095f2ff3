"""The ``fedcore`` command: its sub-commands, their help, and how errors are shown."""

from dataclasses import astuple, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from fedcore import __version__, plugins
from fedcore.cli import advise as _advise
from fedcore.cli import folders as _folders
from fedcore.cli import reproduce as _reproduce
from fedcore.cli.bound import show_bound
from fedcore.cli.data import data_app
from fedcore.cli.job import run_job
from fedcore.cli.options import experiment_from, flowing, options_from, with_experiment_options
from fedcore.config import Experiment
from fedcore.errors import BadOption
from fedcore.report.export import TOOLS, check_tools, export
from fedcore.report.page import write_report
from fedcore.report.plots import draw_advice
from fedcore.report.tables import plain_console
from fedcore.report.verify import verify as look
from fedcore.sources.benchmark import benchmark_names, find
from fedcore.values import read_option

_help = """Federated learning whose rounds end on time: slow clients train on coresets.

Start with [bold]fedcore compare --out runs/first[/bold]: five ways to deal with slow clients on one
benchmark, as tables, plots and a page."""
app = typer.Typer(
    name="fedcore",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    help=flowing(_help),
)

app.add_typer(data_app, name="data")
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of jobs.")]
_file = "TOML file of data, method and all options from 'Job' on; the command line wins."
Config = Annotated[Path | None, typer.Option("--config", help=_file)]
Plots = Annotated[bool, typer.Option("--plots/--no-plots", help="Draw pictures into --out.")]


def train(out: Path | None, given: dict[str, Any]) -> None:
    """Train everything that options say, and hand it to the tools that are asked for."""
    how = {name: given.pop(name) for name in ("overwrite", "resume", "plots")}
    asked = [name for name in TOOLS if given.pop(name)]
    experiment = experiment_from(given, given.pop("config"))
    check_tools(asked, out)
    run_job(experiment, out, **how)
    if out is not None and asked:
        export(out, asked)


def _job(
    *,
    config: Config = None,
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace an earlier job in --out."),
    resume: bool = typer.Option(False, "--resume", help="Go on with an interrupted job in --out."),
    plots: Plots = True,
    csv: bool = typer.Option(False, "--csv", help="Rounds as a table, rounds.csv in --out."),
    tensorboard: bool = typer.Option(False, "--tensorboard", help="For TensorBoard, in --out."),
    mlflow: bool = typer.Option(False, "--mlflow", help="For MLflow, where it tracks."),
) -> None:
    """What 'compare' and 'run' take beside an experiment."""


@app.command()
@with_experiment_options(_job)
def compare(
    *, out: Annotated[Path, typer.Option("--out", help="New folder for results.")], **given: Any
) -> None:
    """Train several strategies on the same clients, cohorts and initial model; compare them.

    Each strategy meets the same slow clients. FedAvg waits for them, FedAvg-DS drops them, FedProx
    cuts their epochs short, FedCore gives them a coreset, Tempo draws what fits and goes further
    where merges lead on. Times are in units of the deadline: a round of 1.00 ends exactly on time.

    [bold]Examples[/bold]

    fedcore compare --benchmark synthetic-1-1 --stragglers 10,30 --rounds 100 --out runs/a

    fedcore compare --preset authors-code --benchmark synthetic-0-0 --out runs/b

    fedcore compare --strategies fedprox,fedcore,./my_method.py --out runs/c
    """
    train(out, given)


@app.command()
@with_experiment_options(_job)
def run(
    *,
    strategy: Annotated[str, typer.Option("--strategy", help="Which one; or a .py file.")],
    out: Path | None = typer.Option(None, help="New folder for results; none: only a table."),
    **given: Any,
) -> None:
    """Train one strategy.

    [bold]Example[/bold]

    fedcore run --strategy fedcore --stragglers 30 --rounds 20
    """
    if "," in strategy:
        several = "'fedcore compare --strategies' takes several"
        raise BadOption(f"strategy must be one, got {strategy!r}; {several}")
    train(out, {**given, "strategies": strategy})


# Its options are argparse's, which a machine without typer has too.
_RAW = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command(context_settings=_RAW)
def reproduce(context: typer.Context) -> None:
    """Train every cell of the paper's Table 2, in pieces that resume; --help has its options."""
    _reproduce.command(context.args)


@app.command()
def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of results.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for all of them.")],
) -> None:
    """Bring pieces of 'fedcore reproduce' from several machines together, each as it is."""
    typer.echo(f"{_folders.merge(folders, out)} jobs are in {out}")


@app.command()
@with_experiment_options()
def bound(
    *,
    out: Path | None = typer.Option(None, help="Folder for the table and the plot."),
    l2: str = typer.Option("0.01", metavar="NUMBER", help="Of the regulariser l2/2 ||w||^2."),
    paths: str = typer.Option("3", metavar="NUMBER", help="Runs that expectations are means of."),
    **given: Any,
) -> None:
    """Check the convergence theorem on logistic regression by full gradients: docs/theory.md.

    Fleet, data, --rounds, --epochs and --clients-per-round count; steps are the theorem's.
    """
    numbers = read_option("l2", l2, float), read_option("paths", paths, int)
    show_bound(experiment_from(given, None), *numbers, out)


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of jobs.")],
    *,
    out: Path | None = typer.Option(None, help="Folder to write to; none: the first DIR."),
    plots: Plots = True,
) -> None:
    """Write report.html: all that jobs in and below DIR found, beside the paper's results.

    Its tables go to tables/ as CSV, Markdown and LaTeX, and pictures to figures/ as PDF and PNG.
    """
    place = out or folders[0]
    try:
        write_report(folders, place, plots=plots)
    except OSError as error:
        raise BadOption(f"out {str(place)!r} cannot be written: {error.strerror}") from None
    except ImportError:
        raise BadOption("plots need matplotlib; install it, or add --no-plots") from None
    typer.echo(f"Written to {place}: report.html and tables" + " and figures" * plots)


@app.command()
@with_experiment_options()
def advise(
    *,
    budget: float = typer.Option(15.0, help="Seconds of processor time for trials."),
    model_bytes: int = typer.Option(0, help="Size of the model, for a fleet without data."),
    plot: Path | None = typer.Option(None, help="Draw time over deadline into this file."),
    config: Config = None,
    **given: Any,
) -> None:
    """Find the deadline with which a target accuracy is reached first.

    Deadlines of 1/32 to 4 times tau, that of 30 % stragglers, are tried in short runs with several
    seeds; what is missing of a run is extrapolated. Sending the model comes on top, so set
    --download and --upload, or --capability phones. The first of --targets is to be reached;
    without, 95 % of the best accuracy seen. 80 % of runs lie within the last factor of the time.

    A fleet without data is a CSV file with the columns client, samples_per_second, download,
    upload (bytes a second; empty: no limit), samples: nothing is trained, and time is relative.

    [bold]Examples[/bold]

    fedcore advise --benchmark synthetic-1-1 --targets 0.84 --upload 20 --download 20

    fedcore advise --benchmark fleet.csv --model-bytes 6653480 --epochs 10 --plot advice.png
    """
    if plot is not None and not (find_spec("matplotlib") and plot.parent.is_dir()):
        needs = "matplotlib (FedCore's extra 'plots') and a folder that is there"
        raise BadOption(f"plot {str(plot)!r} needs {needs}")
    options = {**options_from(given, config), "budget": budget, "model_bytes": model_bytes}
    source, tell = options.pop("benchmark", Experiment.benchmark), plain_console(stderr=True).print
    advice = _advise.advise(source, tell=tell, **options)
    table = Table(*(Column(item.name, justify="right") for item in fields(advice.best)), box=None)
    for one in map(astuple, advice.outlooks):
        cells = (cell if isinstance(cell, tuple) else (cell,) for cell in one)
        table.add_row(*("-".join(map(_advise.shown, cell)) for cell in cells))
    plain_console().print(table, str(advice), sep="\n", soft_wrap=True)
    if plot is not None and advice.best.time < float("inf"):  # else there is nothing to see
        draw_advice([(one.deadline, one.time, one.within) for one in advice.outlooks], plot)


@app.command()
def verify(folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a job.")]) -> None:
    """Check that the events of a job can be true: nobody works twice at once, times add up, ..."""
    wrong, events = look(folder)
    typer.echo("\n".join(wrong) or f"{events:,} events: nothing is wrong with them")
    raise typer.Exit(int(bool(wrong)))


@app.command()
def diff(one: Folder, other: Folder) -> None:
    """Show which options, versions and results of two folders differ; the exit code is then 1."""
    found = list(_folders.differences(one, other))
    typer.echo("\n".join(found) or "no difference but in real times")
    raise typer.Exit(int(bool(found)))


@app.command()
def evaluate(
    folder: Folder, data_dir: str | None = typer.Option(None, help="Place of data.")
) -> None:
    """Load the models that jobs left, and measure them on held-out data again."""
    for run, score in _folders.evaluate(folder, data_dir):
        accuracy = "no held-out data" if score is None else f"loss {score.loss:.4g}"
        if score is not None and score.accuracy is not None:
            accuracy = f"accuracy {100 * score.accuracy:.2f} %"
        at = f"{run.stragglers:g} % stragglers, seed {run.seed}"
        at += "" if run.learning_rate is None else f", step size {run.learning_rate:g}"
        typer.echo(f"{run.benchmark}, {run.strategy}, {at}: {accuracy}")


@app.command(name="list")
def list_everything() -> None:
    """List benchmarks, strategies, selectors, samplers, deadlines and models."""
    table = Table("Kind", "Name", "What it is", box=None, padding=(0, 2))
    for name in benchmark_names():
        table.add_row("benchmark", name, (find(name).module.__doc__ or "").split("\n")[0])
    for kind in ("strategy", "selector", "sampler", "deadline", "model"):
        for name in plugins.names(kind):
            table.add_row(kind, name, plugins.summary(kind, name))
    plain_console().print(table)


@app.callback(invoke_without_command=True)
def version(*, show: bool = typer.Option(False, "--version", help="Show it and exit.")) -> None:
    """Show the version."""
    if show:
        typer.echo(f"fedcore {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command."""
    _reproduce.in_a_sentence(app)
