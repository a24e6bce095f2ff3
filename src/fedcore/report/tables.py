"""Results as tables: in colour on a terminal, in Markdown for documents."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

Result = dict[str, Any]

TITLES = {"fedavg": "FedAvg", "fedavg-ds": "FedAvg-DS", "fedprox": "FedProx", "fedcore": "FedCore"}
COLUMNS = (
    ("Final acc.", "final_test_accuracy"),
    ("Best acc.", "best_test_accuracy"),
    ("Mean >=10", "mean_test_accuracy_from_round_10"),
    ("Train loss", "final_train_loss"),
    ("Mean round", "mean_round_time"),
    ("Longest round", "max_round_time"),
    ("Deadline missed", "deadline_miss_share"),
)
PERCENT = {name for _, name in COLUMNS if "accuracy" in name or "share" in name}


def strategy_title(name: str) -> str:
    """How a strategy is written for people."""
    return TITLES.get(name, name)


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
        if width is not None and _width(table) > width:
            table = _table(*level, cells, apart=True)
        yield table


def rejections(results: Sequence[Result]) -> Iterator[str]:
    """A sentence per strategy and share of stragglers that had answers nobody can average."""
    for (_, stragglers), cells in _by_level(results).items():
        for strategy, runs in cells.items():
            count = sum(run.get("rejected", 0) for run in runs)
            if count:
                yield (
                    f"{counted(count, 'answer')} of {strategy_title(strategy)} at {stragglers:g} % "
                    f"stragglers held NaN or infinity and {'was' if count == 1 else 'were'} left "
                    "out; a smaller --learning-rate may help"
                )


def _table(
    benchmark: str, stragglers: float, cells: dict[str, list[Result]], *, apart: bool = False
) -> Table:
    """The table of one level; ranges stand ``apart``, in lines of their own, if they must."""
    first = next(iter(cells.values()))
    seeds = f"{len(first)} seeds" if len(first) > 1 else f"seed {first[0]['seed']}"
    rounds = counted(first[0]["rounds"], "round")
    table = Table(
        # Text, since a name may hold brackets, which would be taken for markup.
        title=Text(f"{benchmark}, {stragglers:g} % stragglers, {rounds}, {seeds}", style="bold"),
        caption="Accuracy on held-out data: last round, best round, mean from round 10 on.\n"
        "Round times in units of the deadline.",
        box=box.SIMPLE_HEAD,
        padding=(0, 0 if apart else 1),
    )
    # Names fold where there is no room; numbers never do.
    table.add_column("Strategy", overflow="fold", min_width=max(map(len, TITLES.values())))
    for title, _ in COLUMNS:
        table.add_column(title.replace(" ", "\n", 1), justify="right", no_wrap=True)
    for strategy, runs in cells.items():
        numbers = (_styled(name, runs, apart=apart) for _, name in COLUMNS)
        table.add_row(Text(strategy_title(strategy)), *numbers)
    return table


def _width(table: Table) -> int:
    """Characters that a table takes if it may."""
    return Console(width=10_000).measure(table).maximum


def _by_level(
    results: Sequence[Result],
) -> dict[tuple[str, float], dict[str, list[Result]]]:
    levels: dict[tuple[str, float], dict[str, list[Result]]] = {}
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
    if len(values) == 1 or "time" in name or "share" in name:
        return median + unit
    reach = f"{scale * min(values):.{digits}f}-{scale * max(values):.{digits}f}"
    return f"{median}{unit}\n{reach}" if apart else f"{median} ({reach}){unit}"


def _styled(name: str, runs: Sequence[Result], *, apart: bool) -> Text:
    late = name in ("mean_round_time", "max_round_time") and any(run[name] > 1 for run in runs)
    return Text(_cell(name, runs, apart=apart), style="bold red" if late else "")
