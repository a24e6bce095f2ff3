"""Results as tables on a terminal, with sentences that say what they show; sizes as bars."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from fedcore.report import grids
from fedcore.report.grids import Grid

ROOMY = 8  # columns of numbers that 80 characters have room for with gaps of two
BAR = 40  # characters of the longest


def plain_console(*, stderr: bool = False) -> Console:
    """A console that prints what it is given: a path such as ``run[red]`` stays as it is."""
    console = Console(stderr=stderr, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 1000  # in files and pipes a table takes the room it needs
    return console


def everything(content: Mapping[str, Any]) -> Iterator[Table | str]:
    """What a summary says: tables and the sentences below them."""
    yield from map(table_of, grids.level_grids(content["results"]))
    yield from grids.remarks(content["results"])
    yield from map(table_of, grids.cost_grids(content["results"]))
    yield from grids.step_size_remarks(content["step_sizes"])


def table_of(grid: Grid) -> Table:
    """The same cells, in 80 columns as far as they fit."""
    numbers = len(grid.head) - 1
    table = Table(
        # Names fold where there is no room; numbers never do.
        Column(grid.head[0].text, overflow="fold", min_width=9),
        *(Column(cell.text, justify="right", no_wrap=True) for cell in grid.head[1:]),
        # Text, since a name may hold brackets, which would be taken for markup.
        title=Text(grid.title, style="bold"),
        caption=grid.caption,
        box=box.SIMPLE_HEAD,
        collapse_padding=True,  # so that 80 columns are enough
        padding=(0, 1 if numbers <= ROOMY else 0),
        pad_edge=False,
        show_edge=numbers < ROOMY,
    )
    for row in grid.rows:
        table.add_row(*(Text(cell.text, "bold red" if cell.style else "") for cell in row))
    return table


def histogram(bins: Sequence[tuple[int, int, int]], title: str) -> Table:
    """How many clients have how much data (the paper's Figure 2); whoever is there is seen."""
    right = (Column(name, justify="right") for name in ("samples", "clients"))
    table = Table(*right, "", title=title, title_justify="left", box=None, padding=(0, 1))
    longest = max(clients for _, _, clients in bins)
    for low, high, clients in bins:
        reach = f"{low:,}-{high:,}" if high > low else f"{low:,}"
        bar = max(round(BAR * clients / longest), 1) if clients else 0
        table.add_row(reach, f"{clients:,}", "█" * bar)
    return table
