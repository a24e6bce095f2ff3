"""How many clients have how much data (the paper's Figure 2): bars for a terminal, or a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from fedcore.errors import BadOption

WIDTH = 40  # characters of the longest bar


@dataclass(frozen=True, slots=True)
class Bin:
    """How many clients hold ``low`` to ``high`` samples, both included."""

    low: int
    high: int
    clients: int


def doubling_bins(sizes: Sequence[int]) -> list[Bin]:
    """Bins that double in width, since sizes follow a power law: 1, 2-3, 4-7, ...

    >>> doubling_bins([1, 5, 7])
    [Bin(low=1, high=1, clients=1), Bin(low=2, high=3, clients=0), Bin(low=4, high=7, clients=2)]
    """
    places = [size.bit_length() for size in sizes]
    return [
        Bin(1 << place >> 1, (1 << place) - 1, places.count(place))
        for place in range(min(places), max(places) + 1)
    ]


def histogram(sizes: Sequence[int], title: str) -> Table:
    """The histogram as text."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1), show_header=True)
    table.add_column("samples", justify="right")
    table.add_column("clients", justify="right")
    table.add_column("")
    bins = doubling_bins(sizes)
    longest = max(item.clients for item in bins)
    for item in bins:
        reach = f"{item.low:,}-{item.high:,}" if item.high > item.low else f"{item.low:,}"
        table.add_row(reach, f"{item.clients:,}", "█" * _bar(item.clients, longest))
    return table


def draw_histogram(sizes: Sequence[int], title: str, path: Path) -> None:
    """The histogram as a picture, in even bins; the format is that of the file's ending."""
    from matplotlib.figure import Figure  # no global state, no window

    figure = Figure(figsize=(5.2, 4.0), layout="constrained", dpi=120)
    axes = figure.subplots()
    axes.hist(sizes, bins=40, color="#0072B2")
    axes.set_yscale("log")  # most clients have little data: large ones would not be seen
    axes.set_xlabel("Samples of a client")
    axes.set_ylabel("Clients (log)")
    axes.set_title(title)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise BadOption(f"plot {str(path)!r} cannot be written: {error}") from None


def _bar(clients: int, longest: int) -> int:
    """Length of a bar; whoever is there is seen."""
    return max(round(WIDTH * clients / longest), 1) if clients else 0
