"""``fedcore data``: which datasets there are, getting their files, how they are spread."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedcore import plugins
from fedcore.errors import BadOption
from fedcore.losses import LOSSES
from fedcore.report.page.tables import table_one
from fedcore.report.summary import spread
from fedcore.report.tables import histogram, plain_console, table_of
from fedcore.sim.federation import check_dataset
from fedcore.sources import benchmark as _benchmark
from fedcore.sources import files as _files
from fedcore.task import Terms
from fedcore.values import read_option, read_pairs

_help = "Datasets: list them, fetch their files, see how they are spread over clients."
data_app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=_help)

_seed = "Seed of the dataset; else the paper's or nearest."
_data = "Further option of the dataset, e.g. --data sigma=1.7."
_where = "Data directory, one folder per dataset; else $FEDCORE_DATA, else the user's cache."
DataDir = Annotated[Path | None, typer.Option("--data-dir", help=_where)]


@data_app.command(name="list")
def list_datasets(*, data_dir: DataDir = None) -> None:
    """List datasets, and whether their files are there."""
    table = Table("Name", "What it is", "Files", box=None, padding=(0, 2))
    for name in plugins.names("dataset"):
        state, source = "none to fetch", _source(name)
        if source is not None:
            found = {file: source.find(file, data_dir) for file in source.files}
            sizes = [file.size for file, path in found.items() if path is None]
            state = f"{len(sizes)} of {len(found)} missing, {sum(sizes) / 1e6:.1f} MB"
            if not sizes:
                state = f"in {found[source.files[0]].parent}"  # type: ignore[union-attr]
        table.add_row(name, plugins.summary("dataset", name), state)
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
    source = _source(name)
    if source is None:
        raise BadOption(f"{name} has no files to fetch: it is generated, or made from your own")
    for file in source.files:
        path, is_new = _files.fetch(source, file, data_dir)
        told = "fetched" if is_new else "already there"
        plain_console().print(f"{told}: {path}", soft_wrap=True)


@data_app.command()
def stats(
    name: Annotated[str, typer.Argument(help="Benchmark, e.g. mnist; or a .py file of yours.")],
    *,
    data_dir: DataDir = None,
    seed: str | None = typer.Option(None, metavar="NUMBER", help=_seed),
    data: list[str] | None = typer.Option(None, help=_data),
) -> None:
    """Show how a dataset is spread over clients, beside the paper's Table 1 and as its Figure 2.

    [bold]Examples[/bold]

    fedcore data stats shakespeare

    fedcore data stats mnist --seed 17112 --data sigma=1.7
    """
    benchmark = _benchmark.find(name)
    own_seed = int(benchmark.hyperparameters("paper").get("data_seed", 0))
    number = own_seed if seed is None else read_option("seed", seed, int)
    options = read_pairs("data", data or [])
    loaded = benchmark.load(seed=number, data_dir=data_dir, options=options)
    # Counted are samples: targets may be whatever some loss takes.
    found, console = spread(check_dataset(loaded, terms=Terms(LOSSES["mse"]))), plain_console()
    console.print(table_of(table_one([(benchmark.name, found)])["table-1"]))
    given = ", ".join(f"{key} {value}" for key, value in {"seed": number, **options}.items())
    # What is noted is about the benchmark's own seed.
    note = getattr(benchmark.module, "NOTE", "") if number == own_seed else ""
    console.print(f"{found['counted'].capitalize()}; {given}. {note}".rstrip(), soft_wrap=True)
    console.print()
    console.print(histogram(found["bins"], f"{benchmark.name}: samples per client"))


def _source(name: str) -> _files.Source | None:
    return getattr(plugins.load("dataset", name), "SOURCE", None)
