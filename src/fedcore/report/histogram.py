"""How many clients have how much data (the paper's Figure 2): bars for a terminal, or a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from fedcore.errors import BadOption

WIDTH = 40  # characters of the longest bar


def doubling_bins(sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """(least, most, clients) of bins that double, since sizes follow a power law: 1, 2-3, 4-7, ...

    >>> doubling_bins([1, 5, 7])
    [(1, 1, 1), (2, 3, 0), (4, 7, 2)]
    """
    places = [size.bit_length() for size in sizes]
    return [
        (1 << place >> 1, (1 << place) - 1, places.count(place))
        for place in range(min(places), max(places) + 1)
    ]


def histogram(sizes: Sequence[int], title: str) -> Table:
    """The histogram as text; whoever is there is seen."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1), show_header=True)
    table.add_column("samples", justify="right")
    table.add_column("clients", justify="right")
    table.add_column("")
    bins = doubling_bins(sizes)
    longest = max(clients for _, _, clients in bins)
    for low, high, clients in bins:
        reach = f"{low:,}-{high:,}" if high > low else f"{low:,}"
        bar = max(round(WIDTH * clients / longest), 1) if clients else 0
        table.add_row(reach, f"{clients:,}", "█" * bar)
    return table


def draw_histogram(sizes: Sequence[int], title: str, path: Path) -> None:
    """The histogram as a picture, in even bins; the format is that of the file's ending."""
    from matplotlib.figure import Figure  # no global state, no window

    figure = Figure(figsize=(5.2, 4.0), layout="constrained", dpi=120)
    axes = figure.subplots()
    axes.hist(sizes, bins=40, color="#0072B2")
    # Most clients have little data: without a logarithm large ones would not be seen.
    axes.set(yscale="log", xlabel="Samples of a client", ylabel="Clients (log)", title=title)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise BadOption(f"plot {str(path)!r} cannot be written: {error}") from None
