"""Results as tables on a terminal, with sentences that say what they show; sizes as bars."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from fedcore import plugins
from fedcore.records import RunKey
from fedcore.report.records import by_level

Result = dict[str, Any]
Cells = dict[str, list[Result]]  # results of one level by strategy, one per seed

COLUMNS = (  # two lines of title, and the number below them
    ("Accuracy,\nlast round", "final_test_accuracy"),
    ("best\nround", "best_test_accuracy"),
    ("Training\nloss", "final_train_loss"),
    ("Mean\nround", "mean_round_time"),
    ("Longest\nround", "max_round_time"),
    ("Rounds\nlate", "deadline_miss_share"),
)
LEVEL = 0.01  # accuracies that differ by less are called level
NOUNS = {"rejected": "answer", "fell_back": "coreset"}  # what a result counts of what went wrong
FAULTS = {
    "rejected": "left out {} that held NaN or infinity; a smaller --learning-rate may help",
    "fell_back": "took plain draws in place of {}, where their selector failed",
}
BAR = 40  # characters of the longest


def plain_console(*, stderr: bool = False) -> Console:
    """A console that prints what it is given: a path such as ``run[red]`` stays as it is."""
    console = Console(stderr=stderr, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 1000  # in files and pipes a table takes the room it needs
    return console


@cache
def strategy_title(name: str) -> str:
    """How a strategy is written for people: as its file calls it before the first colon."""
    if name not in plugins.names("strategy"):
        return name  # a file of the user's own goes by its name
    title, colon, _ = plugins.summary("strategy", name).partition(":")
    return title if colon else name


def counted(number: int, noun: str) -> str:
    """A number and what it counts: 1 round, 2 rounds."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def tables(results: Sequence[Result]) -> Iterator[Table]:
    """One table per benchmark and share of stragglers; seeds are medians, with ranges below."""
    return (_table(*level, cells) for level, cells in _by_level(results).items())


def remarks(results: Sequence[Result]) -> Iterator[str]:
    """What each table shows, and a sentence for whatever did not go as it should."""
    levels = _by_level(results)
    for (_, stragglers), cells in levels.items():
        if shown := _finding(cells):
            yield f"At {stragglers:g} % stragglers, {shown}."
    for (_, stragglers), cells in levels.items():
        for strategy, runs in cells.items():
            for name, sentence in FAULTS.items():
                if count := sum(run.get(name, 0) for run in runs):
                    who = f"{strategy_title(strategy)} at {stragglers:g} % stragglers"
                    yield f"{who} {sentence.format(counted(count, NOUNS[name]))}."


def _finding(cells: Cells) -> str:
    """How accurate those are whose rounds all ended on time, and what the others take: medians."""
    found = {s: _values("final_test_accuracy", runs) for s, runs in cells.items()}
    accuracy = {s: statistics.median(values) for s, values in found.items() if values}
    told = {s: f"{strategy_title(s)} {100 * value:.1f} %" for s, value in accuracy.items()}
    late = [s for s in told if any(run["max_round_time"] > 1 for run in cells[s])]
    on_time = sorted(told.keys() - late, key=lambda s: -accuracy[s])
    parts = []
    if on_time:
        parts.append("every round on time: " + ", ".join(told[s] for s in on_time))
    if len(on_time) > 1:
        first, second = on_time[:2]
        ahead = accuracy[first] - accuracy[second]
        how = "level with" if ahead < LEVEL else f"{100 * ahead:.1f} points ahead of"
        parts.append(f"{strategy_title(first)} is {how} {strategy_title(second)}")
    for strategy in late:
        length = statistics.median(_values("mean_round_time", cells[strategy]))
        parts.append(f"late: {told[strategy]}, in rounds of {length:.1f} deadlines")
    return "; ".join(parts)


def _values(name: str, runs: Sequence[Result]) -> list[float]:
    return [run[name] for run in runs if run[name] is not None]


def _table(benchmark: str, stragglers: float, cells: Cells) -> Table:
    first = next(iter(cells.values()))
    several = len(first) > 1
    seeds = f"{len(first)} seeds" if several else f"seed {first[0]['seed']}"
    lengths = [run["rounds"] for runs in cells.values() for run in runs]
    several_lengths = f"{min(lengths):,} to " if min(lengths) < max(lengths) else ""
    rounds = several_lengths + counted(max(lengths), "round")
    table = Table(
        # Names fold where there is no room; numbers never do.
        Column("Strategy", overflow="fold", min_width=9),
        *(Column(title, justify="right", no_wrap=True) for title, _ in COLUMNS),
        # Text, since a name may hold brackets, which would be taken for markup.
        title=Text(f"{benchmark}, {stragglers:g} % stragglers, {rounds}, {seeds}", style="bold"),
        caption="Accuracy on data nobody trained on; a round of 1.00 ends at the deadline."
        + ("\nMedian of the seeds, and from the least to the largest of them." if several else ""),
        box=box.SIMPLE_HEAD,
        collapse_padding=True,  # so that 80 columns are enough
        pad_edge=False,
    )
    for strategy, runs in cells.items():
        table.add_row(Text(strategy_title(strategy)), *(_cell(name, runs) for _, name in COLUMNS))
    return table


def _by_level(results: Sequence[Result]) -> dict[tuple[str, float], Cells]:
    names = [field.name for field in fields(RunKey)]
    return by_level({RunKey(*(result[name] for name in names)): result for result in results})


def _cell(name: str, runs: Sequence[Result]) -> Text:
    if not (values := _values(name, runs)):
        return Text("-")
    style = "bold red" if name.endswith("round_time") and max(values) > 1 else ""
    if name == "max_round_time":  # of all seeds: a deadline is missed or it is not
        return Text(f"{max(values):.2f}", style)
    percent = "accuracy" in name or "share" in name
    scale, digits, unit = (100, 1, " %") if percent else (1, 3 if "loss" in name else 2, "")
    parts = (statistics.median(values), min(values), max(values))
    median, low, high = (f"{scale * value:.{digits}f}" for value in parts)
    spread = "" if low == high or "share" in name else f"\n{low}-{high}"
    return Text(f"{median}{unit}{spread}", style)


def doubling_bins(sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """(least, most, clients) of bins that double, for sizes follow a power law: 1, 2-3, 4-7."""
    places = [size.bit_length() for size in sizes]
    return [
        (1 << place >> 1, (1 << place) - 1, places.count(place))
        for place in range(min(places), max(places) + 1)
    ]


def histogram(sizes: Sequence[int], title: str) -> Table:
    """How many clients have how much data (the paper's Figure 2); whoever is there is seen."""
    right = (Column(name, justify="right") for name in ("samples", "clients"))
    table = Table(*right, "", title=title, title_justify="left", box=None, padding=(0, 1))
    bins = doubling_bins(sizes)
    longest = max(clients for _, _, clients in bins)
    for low, high, clients in bins:
        reach = f"{low:,}-{high:,}" if high > low else f"{low:,}"
        bar = max(round(BAR * clients / longest), 1) if clients else 0
        table.add_row(reach, f"{clients:,}", "█" * bar)
    return table
