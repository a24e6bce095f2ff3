"""Commands that look at what jobs left: 'fedcore diff' and 'fedcore evaluate'."""

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of jobs.")]


def diff(one: Folder, other: Folder) -> None:
    """Show which options, versions and results of two folders differ; the exit code is then 1."""
    from fedcore.cli.folders import differences

    found = list(differences(one, other))
    typer.echo("\n".join(found) or "no difference but in real times")
    raise typer.Exit(int(bool(found)))


def evaluate(
    folder: Folder, data_dir: str | None = typer.Option(None, help="Place of data.")
) -> None:
    """Load the models that jobs left, and measure them on held-out data again."""
    from fedcore.cli.evaluate import evaluate as measured

    for run, score in measured(folder, data_dir):
        accuracy = "no held-out data" if score is None else f"loss {score.loss:.4g}"
        if score is not None and score.accuracy is not None:
            accuracy = f"accuracy {100 * score.accuracy:.2f} %"
        at = f"{run.stragglers:g} % stragglers, seed {run.seed}"
        typer.echo(f"{run.benchmark}, {run.strategy}, {at}: {accuracy}")
