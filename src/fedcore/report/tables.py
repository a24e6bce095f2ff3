"""Results as tables on a terminal, with a sentence under each that says what it shows."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from rich import box
from rich.table import Table
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
PERCENT = {name for _, name in COLUMNS if "accuracy" in name or "share" in name}
LEVEL = 0.01  # accuracies that differ by less are called level
FAULTS = (  # what a result counts of what went wrong, and how it is told
    (
        "rejected",
        "answer",
        "left out {} that held NaN or infinity; a smaller --learning-rate may help",
    ),
    ("fell_back", "coreset", "took plain draws in place of {}, where their selector failed"),
)


@cache
def strategy_title(name: str) -> str:
    """How a strategy is written for people: as its file calls it before the first colon."""
    if name not in plugins.names("strategy"):
        return name  # a file of the user's own goes by its name
    title, colon, _ = plugins.summary("strategy", name).partition(":")
    return title if colon else name


def counted(number: int, noun: str) -> str:
    """A number and what it counts.

    >>> counted(1, "round"), counted(2, "round")
    ('1 round', '2 rounds')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def tables(results: Sequence[Result]) -> Iterator[Table]:
    """One table per benchmark and share of stragglers; seeds are medians, with ranges below."""
    for level, cells in _by_level(results).items():
        yield _table(*level, cells)


def remarks(results: Sequence[Result]) -> Iterator[str]:
    """What each table shows, and a sentence for whatever did not go as it should."""
    levels = _by_level(results)
    for (_, stragglers), cells in levels.items():
        shown = finding(cells)
        if shown:
            yield f"At {stragglers:g} % stragglers, {shown}."
    for (_, stragglers), cells in levels.items():
        for strategy, runs in cells.items():
            for name, noun, sentence in FAULTS:
                count = sum(run.get(name, 0) for run in runs)
                if count:
                    who = f"{strategy_title(strategy)} at {stragglers:g} % stragglers"
                    yield f"{who} {sentence.format(counted(count, noun))}."


def finding(cells: Cells) -> str:
    """How accurate those are whose rounds all ended on time, and what the others take: medians."""
    found = {s: _median("final_test_accuracy", runs) for s, runs in cells.items()}
    accuracy = {s: value for s, value in found.items() if value is not None}
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
        length = _median("mean_round_time", cells[strategy])
        parts.append(f"late: {told[strategy]}, in rounds of {length:.1f} deadlines")
    return "; ".join(parts)


def _median(name: str, runs: Sequence[Result]) -> float | None:
    values = [run[name] for run in runs if run[name] is not None]
    return statistics.median(values) if values else None


def _table(benchmark: str, stragglers: float, cells: Cells) -> Table:
    first = next(iter(cells.values()))
    several = len(first) > 1
    seeds = f"{len(first)} seeds" if several else f"seed {first[0]['seed']}"
    rounds = counted(first[0]["rounds"], "round")
    table = Table(
        # Text, since a name may hold brackets, which would be taken for markup.
        title=Text(f"{benchmark}, {stragglers:g} % stragglers, {rounds}, {seeds}", style="bold"),
        caption="Accuracy on data nobody trained on; a round of 1.00 ends at the deadline."
        + ("\nMedian of the seeds, and from the least to the largest of them." if several else ""),
        box=box.SIMPLE_HEAD,
        collapse_padding=True,  # so that 80 columns are enough
        pad_edge=False,
    )
    # Names fold where there is no room; numbers never do.
    table.add_column("Strategy", overflow="fold", min_width=9)
    for title, _ in COLUMNS:
        table.add_column(title, justify="right", no_wrap=True)
    for strategy, runs in cells.items():
        numbers = (_styled(name, runs) for _, name in COLUMNS)
        table.add_row(Text(strategy_title(strategy)), *numbers)
    return table


def _by_level(results: Sequence[Result]) -> dict[tuple[str, float], Cells]:
    names = [field.name for field in fields(RunKey)]
    return by_level({RunKey(*(result[name] for name in names)): result for result in results})


def _cell(name: str, runs: Sequence[Result]) -> str:
    values = [run[name] for run in runs if run[name] is not None]
    if not values:
        return "-"
    scale, digits = (100, 1) if name in PERCENT else (1, 3 if "loss" in name else 2)
    unit = " %" if name in PERCENT else ""
    if name == "max_round_time":
        return f"{max(values):.2f}"  # the longest of all seeds: a deadline is missed or it is not
    median = f"{scale * statistics.median(values):.{digits}f}"
    low, high = (f"{scale * value:.{digits}f}" for value in (min(values), max(values)))
    if low == high or "share" in name:
        return median + unit
    return f"{median}{unit}\n{low}-{high}"


def _styled(name: str, runs: Sequence[Result]) -> Text:
    late = name in ("mean_round_time", "max_round_time") and any(run[name] > 1 for run in runs)
    return Text(_cell(name, runs), style="bold red" if late else "")
