"""``fedcore data``: which datasets there are, getting their files, how they are spread."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from fedcore import plugins
from fedcore.cli.consoles import plain_console
from fedcore.errors import BadOption
from fedcore.values import read_option, read_pairs

if TYPE_CHECKING:
    from fedcore.sources.files import Source

data_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Datasets: list them, fetch their files, see how they are spread over clients.",
)

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Data directory, one folder per dataset; else $FEDCORE_DATA, else the user's cache.",
    ),
]


@data_app.command(name="list")
def list_datasets(*, data_dir: DataDir = None) -> None:
    """List datasets, and whether their files are there."""
    table = Table(show_header=True, box=None, padding=(0, 2))
    for title in ("Name", "What it is", "Files"):
        table.add_column(title)
    for name in plugins.names("dataset"):
        module = plugins.load("dataset", name)
        table.add_row(name, plugins.summary("dataset", name), _state(module, data_dir))
    plain_console().print(table)


@data_app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Dataset, e.g. mnist; see 'fedcore data list'.")],
    *,
    data_dir: DataDir = None,
) -> None:
    """Download a dataset's files from their public origin, and check them.

    What is already there and right is kept.

    [bold]Example[/bold]

    fedcore data fetch mnist --data-dir ~/data
    """
    from fedcore.sources.files import fetch as fetch_file

    source: Source | None = getattr(plugins.load("dataset", name), "SOURCE", None)
    if source is None:
        raise BadOption(f"{name} has no files to fetch: it is generated, or made from your own")
    console = plain_console()
    for file in source.files:
        path, is_new = fetch_file(source, file, data_dir)
        console.print(f"{'fetched' if is_new else 'already there'}: {path}", soft_wrap=True)


@data_app.command()
def stats(
    name: Annotated[str, typer.Argument(help="Benchmark, e.g. mnist; or a .py file of yours.")],
    *,
    data_dir: DataDir = None,
    seed: Annotated[
        str | None,
        typer.Option(
            "--seed", metavar="NUMBER", help="Seed of the dataset; else the paper's or nearest."
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="Further option of the dataset, e.g. --data sigma=1.7."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the histogram into this file too.")
    ] = None,
) -> None:
    """Show how a dataset is spread over clients, beside the paper's Table 1 and as its Figure 2.

    [bold]Examples[/bold]

    fedcore data stats shakespeare

    fedcore data stats mnist --seed 17112 --data sigma=1.7 --plot mnist.png
    """
    from fedcore.report.histogram import draw_histogram, histogram
    from fedcore.sim.federation import check_dataset
    from fedcore.sources.benchmark import find
    from fedcore.sources.clients import sizes_of

    benchmark = find(name)
    own_seed = int(benchmark.hyperparameters("paper").get("data_seed", 0))
    number = own_seed if seed is None else read_option("seed", seed, int)
    options = read_pairs("data", data or [])
    dataset = check_dataset(benchmark.load(seed=number, data_dir=data_dir, options=options))
    sizes = list(dataset.sizes) or list(sizes_of(dataset.clients).values())
    console = plain_console()
    paper = getattr(benchmark.module, "PAPER", {}).get(benchmark.name)
    console.print(_table_one(benchmark.name, paper, np.asarray(sizes)))
    counted = "Training and test samples" if dataset.sizes else "Training samples"
    given = ", ".join(f"{key} {value}" for key, value in {"seed": number, **options}.items())
    # What is noted is about the benchmark's own seed.
    note = getattr(benchmark.module, "NOTE", "") if number == own_seed else ""
    console.print(f"{counted}; {given}. {note}".rstrip(), soft_wrap=True)
    console.print()
    title = f"{benchmark.name}: samples per client"
    console.print(histogram(sizes, title))
    if plot is not None:
        try:
            draw_histogram(sizes, title, plot)
        except ImportError:
            raise BadOption("plot needs matplotlib; pip install 'fedcore[plots]'") from None
        console.print(f"Written to {plot}", soft_wrap=True)


def _table_one(name: str, paper: tuple[float, ...] | None, sizes: NDArray[np.int64]) -> Table:
    """Clients, samples, mean and standard deviation (over n) in the paper's Table 1, and here."""
    table = Table(title=f"Table 1, {name}", title_justify="left")
    table.add_column("")
    for column in ("clients", "samples", "mean", "std", "least", "median", "most"):
        table.add_column(column, justify="right")
    if paper is not None:
        table.add_row("paper", *(f"{number:,}" for number in paper), "", "", "")
    here = (f"{len(sizes):,}", f"{sizes.sum():,}", f"{sizes.mean():,.2f}", f"{sizes.std():,.2f}")
    spread = (f"{sizes.min():,}", f"{np.median(sizes):,.0f}", f"{sizes.max():,}")
    table.add_row("here", *here, *spread)
    return table


def _state(module: ModuleType, data_dir: Path | None) -> str:
    source: Source | None = getattr(module, "SOURCE", None)
    if source is None:
        return "none to fetch"
    found = {file: source.find(file, data_dir) for file in source.files}
    missing = [file for file, path in found.items() if path is None]
    if not missing:
        return f"in {next(iter(found.values())).parent}"  # type: ignore[union-attr]
    size = sum(file.size for file in missing)
    return f"{len(missing)} of {len(found)} missing, {size / 1e6:.1f} MB"
