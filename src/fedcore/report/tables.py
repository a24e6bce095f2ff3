"""Results as tables on a terminal, with a sentence under each that says what it shows."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedcore import plugins

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
FAULTS = {  # what a result counts, and how it is told of one and of many
    "rejected": (
        "answer of {} held NaN or infinity and was left out",
        "answers of {} held NaN or infinity and were left out",
        "; a smaller --learning-rate may help",
    ),
    "fell_back": (
        "coreset of {} was a plain draw",
        "coresets of {} were plain draws",
        ", since their selector failed on these samples",
    ),
}


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


def tables(results: Sequence[Result], *, width: int | None = None) -> Iterator[Table]:
    """One table per benchmark and share of stragglers; seeds are medians with their range.

    Where that takes more than ``width`` characters, a range stands below its median.
    """
    for level, cells in _by_level(results).items():
        table = _table(*level, cells)
        if width is not None and Console(width=10_000).measure(table).maximum > width:
            table = _table(*level, cells, apart=True)
        yield table


def remarks(results: Sequence[Result]) -> Iterator[str]:
    """What each table shows, and a sentence for whatever did not go as it should."""
    levels = _by_level(results)
    for (_, stragglers), cells in levels.items():
        shown = finding(cells)
        if shown:
            yield f"At {stragglers:g} % stragglers: {shown}"
    for (_, stragglers), cells in levels.items():
        for strategy, runs in cells.items():
            who = f"{strategy_title(strategy)} at {stragglers:g} % stragglers"
            for name, (one, many, end) in FAULTS.items():
                count = sum(run.get(name, 0) for run in runs)
                if count:
                    yield f"{count:,} {(one if count == 1 else many).format(who)}{end}"


def finding(cells: Cells) -> str | None:
    """Who is the most accurate of those on time, and what the others take; by medians."""
    accuracy = {s: _median("final_test_accuracy", runs) for s, runs in cells.items()}
    known = {s: value for s, value in accuracy.items() if value is not None}
    late = [s for s in known if any(run["max_round_time"] > 1 for run in cells[s])]
    on_time = sorted((s for s in known if s not in late), key=lambda s: -known[s])
    if not on_time:
        return "no strategy ended every round on time." if late else None
    first, *others = on_time
    best = known[first]
    level = [first, *(s for s in others if best - known[s] < LEVEL)]
    behind = [s for s in others if s not in level]
    names = " and ".join(map(strategy_title, level))
    text = f"of those whose rounds all ended on time, {names}"
    if len(level) > 1:
        text += f" are level at {100 * known[level[-1]]:.1f} to {100 * best:.1f} %"
    else:
        text += f" is the most accurate, {100 * best:.1f} %" if behind else f", {100 * best:.1f} %"
    if behind:
        distance = 100 * (best - known[behind[0]])
        text += f", {distance:.1f} points above {strategy_title(behind[0])}"
    sentences = [text]
    for strategy in late:
        distance = 100 * (known[strategy] - best)
        where = f"{abs(distance):.1f} points {'above' if distance > 0 else 'below'}"
        mean = _median("mean_round_time", cells[strategy])
        sentences.append(
            f"{strategy_title(strategy)} ended {where} that, in rounds of {mean:.1f} deadlines"
        )
    return "; ".join(sentences) + "."


def _median(name: str, runs: Sequence[Result]) -> float | None:
    values = [run[name] for run in runs if run[name] is not None]
    return statistics.median(values) if values else None


def _table(benchmark: str, stragglers: float, cells: Cells, *, apart: bool = False) -> Table:
    """The table of one level; ranges stand ``apart``, in lines of their own, if they must."""
    first = next(iter(cells.values()))
    several = len(first) > 1
    seeds = f"{len(first)} seeds" if several else f"seed {first[0]['seed']}"
    rounds = counted(first[0]["rounds"], "round")
    table = Table(
        # Text, since a name may hold brackets, which would be taken for markup.
        title=Text(f"{benchmark}, {stragglers:g} % stragglers, {rounds}, {seeds}", style="bold"),
        caption="Accuracy on data that nobody trained on. A round of length 1 ends at the deadline."
        + ("\nMedian of the seeds, and from the least to the largest of them." if several else ""),
        box=box.SIMPLE_HEAD,
        padding=(0, 0 if apart else 1),
    )
    # Names fold where there is no room; numbers never do.
    table.add_column("Strategy", overflow="fold", min_width=9)
    for title, _ in COLUMNS:
        table.add_column(title, justify="right", no_wrap=True)
    for strategy, runs in cells.items():
        numbers = (_styled(name, runs, apart=apart) for _, name in COLUMNS)
        table.add_row(Text(strategy_title(strategy)), *numbers)
    return table


def _by_level(results: Sequence[Result]) -> dict[tuple[str, float], Cells]:
    levels: dict[tuple[str, float], Cells] = {}
    for result in results:
        level = levels.setdefault((result["benchmark"], result["stragglers"]), {})
        level.setdefault(result["strategy"], []).append(result)
    return levels


def _cell(name: str, runs: Sequence[Result], *, apart: bool) -> str:
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
    return f"{median}{unit}\n{low}-{high}" if apart else f"{median} ({low}-{high}){unit}"


def _styled(name: str, runs: Sequence[Result], *, apart: bool) -> Text:
    late = name in ("mean_round_time", "max_round_time") and any(run[name] > 1 for run in runs)
    return Text(_cell(name, runs, apart=apart), style="bold red" if late else "")
