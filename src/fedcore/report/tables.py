"""Results as tables: in colour on a terminal, in Markdown for documents."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
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


def tables(results: Sequence[Result]) -> Iterator[Table]:
    """One table per benchmark and share of stragglers; seeds are medians with their range."""
    for (benchmark, stragglers), cells in _by_level(results).items():
        first = next(iter(cells.values()))
        seeds = f"{len(first)} seeds" if len(first) > 1 else f"seed {first[0]['seed']}"
        table = Table(
            title=f"{benchmark}, {stragglers:g} % stragglers, {first[0]['rounds']} rounds, {seeds}",
            caption="Accuracy on held-out data: last round, best round, mean from round 10 on.\n"
            "Round times in units of the deadline.",
            box=box.SIMPLE_HEAD,
            title_style="bold",
            padding=(0, 1),
        )
        table.add_column("Strategy", no_wrap=True)
        for title, _ in COLUMNS:
            table.add_column(title.replace(" ", "\n", 1), justify="right", no_wrap=True)
        for strategy, runs in cells.items():
            table.add_row(strategy_title(strategy), *(_styled(name, runs) for _, name in COLUMNS))
        yield table


def _by_level(
    results: Sequence[Result],
) -> dict[tuple[str, float], dict[str, list[Result]]]:
    levels: dict[tuple[str, float], dict[str, list[Result]]] = {}
    for result in results:
        level = levels.setdefault((result["benchmark"], result["stragglers"]), {})
        level.setdefault(result["strategy"], []).append(result)
    return levels


def _cell(name: str, runs: Sequence[Result]) -> str:
    values = [run[name] for run in runs if run[name] is not None]
    if not values:
        return "-"
    scale, digits = (100, 1) if name in PERCENT else (1, 3 if "loss" in name else 2)
    text = f"{scale * statistics.median(values):.{digits}f}"
    if name == "max_round_time":
        text = f"{max(values):.2f}"  # the longest of all seeds: a deadline is missed or it is not
    elif len(values) > 1 and "time" not in name and "share" not in name:
        text += f" ({scale * min(values):.{digits}f}-{scale * max(values):.{digits}f})"
    return text + (" %" if name in PERCENT else "")


def _styled(name: str, runs: Sequence[Result]) -> Text:
    late = name in ("mean_round_time", "max_round_time") and any(run[name] > 1 for run in runs)
    return Text(_cell(name, runs), style="bold red" if late else "")
