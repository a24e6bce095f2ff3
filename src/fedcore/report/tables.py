"""Results as tables on a terminal, with sentences that say what they show; sizes as bars."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from fedcore import plugins
from fedcore.report.records import by_level, run_of

Result = dict[str, Any]
Cells = dict[str, list[Result]]  # results of one level by strategy, one per seed
Columns = list[tuple[str, Callable[[Sequence[Result]], Text]]]  # title, and cell of some runs

COLUMNS = (  # two lines of title, and the number below them
    ("Accuracy,\nlast round", "final_test_accuracy"),
    ("best\nround", "best_test_accuracy"),
    ("Training\nloss", "final_train_loss"),
    ("Mean\nround", "mean_round_time"),
    ("Longest\nround", "max_round_time"),
    ("Rounds\nlate", "deadline_miss_share"),
)
SERVED = (  # the same for the second table
    ("Slow\nclients", "slow_accuracy"),
    ("Worst\ntenth", "worst_accuracy"),
    ("Jain\nindex", "participation_fairness"),
)
COST_CAPTION = """Virtual seconds to the first evaluation at or above an accuracy.
Slow ({} of {}: E epochs take them past the deadline)
and the worst tenth of clients: accuracy on their own training data.
Jain's index: 1 where all clients are merged equally often.
Client-seconds: all that clients spent (and the share that was lost).
Of seeds the median; k, M, G: thousands, millions, billions."""
STALE = "\nStale: merges while an answer was made, in the mean and at most."
WIDEST, ROOMY = 9, 8  # columns of numbers that 80 characters have room for; with gaps of two
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


def everything(content: Mapping[str, Any]) -> Iterator[Table | str]:
    """What a summary says: tables and the sentences below them."""
    yield from tables(content["results"])
    yield from remarks(content["results"])
    yield from cost_tables(content["results"])
    yield from step_size_remarks(content["step_sizes"])


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


def cost_tables(results: Sequence[Result]) -> Iterator[Table]:
    """What every strategy cost and whom it served, for each level; seeds are medians."""
    for (benchmark, stragglers), cells in _by_level(results).items():
        every = [run for runs in cells.values() for run in runs]
        known = next((run for run in every if run.get("deadline_seconds") is not None), None)
        if known is None:  # results of an earlier version
            continue
        goals = [f"Seconds\n{100 * time['target']:.3g} %" for time in known["time_to_accuracy"]]
        columns: Columns = [(goal, partial(_reached, place)) for place, goal in enumerate(goals)]
        columns += [(title, partial(_cell, name, ranged=False)) for title, name in SERVED]
        columns.append(("Client-\nseconds", _spent))
        columns.append(("Bytes\ndown,up", partial(_pair, ("bytes_down", "bytes_up"))))
        slow = f"{known['slow_clients']:,}", counted(known["clients"], "client")
        caption = COST_CAPTION.format(*slow)
        if _values("largest_staleness", every):
            caption += STALE
            names = ("mean_staleness", "largest_staleness")
            columns.append(("Stale,\nmost", partial(_pair, names)))
        title = f"{benchmark}, {stragglers:g} % stragglers: what it cost, and whom it served"
        most = WIDEST if len(columns) <= WIDEST else len(COLUMNS)  # of one table
        for start in range(0, len(columns), most):
            yield _grid(title, caption, columns[start : start + most], cells)


def step_size_remarks(choices: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Which step sizes were chosen, by what, and whether better ones may lie outside the grid."""
    for stragglers in dict.fromkeys(choice["stragglers"] for choice in choices):
        chosen = [choice for choice in choices if choice["stragglers"] == stragglers]
        tried = ", ".join(f"{rate:g}" for rate, _ in chosen[0]["tried"])
        edges = (f" (the {choice['edge']} tried)" if choice["edge"] else "" for choice in chosen)
        names = (f"{strategy_title(one['strategy'])} {one['learning_rate']:g}" for one in chosen)
        best = ", ".join(map("".join, zip(names, edges, strict=True)))
        how = f"chosen among {tried} by the final accuracy on half of the held-out data"
        where = f"Step sizes at {stragglers:g} % stragglers"
        yield f"{where}, {how}; the tables are of the other half: {best}."


def short(value: float) -> str:
    """A number in three digits: 950, 12.3k, 4.56M."""
    for unit in ("", "k", "M", "G"):
        if value < 999.5:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g}T"


def _finding(cells: Cells) -> str:
    """How accurate those are whose rounds all ended on time, and what the others take: medians."""
    found = {s: _values("final_test_accuracy", runs) for s, runs in cells.items()}
    accuracy = {s: statistics.median(values) for s, values in found.items() if values}
    told = {s: f"{strategy_title(s)} {100 * value:.1f} %" for s, value in accuracy.items()}
    late = [s for s in told if any(run["deadline_miss_share"] for run in cells[s])]
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
    return [run[name] for run in runs if run.get(name) is not None]


def _table(benchmark: str, stragglers: float, cells: Cells) -> Table:
    first = next(iter(cells.values()))
    several = len(first) > 1
    seeds = f"{len(first)} seeds" if several else f"seed {first[0]['seed']}"
    counts = sorted({run["rounds"] for runs in cells.values() for run in runs})
    rounds = (f"{counts[0]:,} to " if len(counts) > 1 else "") + counted(counts[-1], "round")
    title = f"{benchmark}, {stragglers:g} % stragglers, {rounds}, {seeds}"
    caption = f"Accuracy on data nobody trained on; 1.00 is the deadline at {stragglers:g} %." + (
        "\nMedian of the seeds, and from the least to the largest of them." if several else ""
    )
    return _grid(title, caption, [(name, partial(_cell, key)) for name, key in COLUMNS], cells)


def _grid(title: str, caption: str, columns: Columns, cells: Cells) -> Table:
    """A row per strategy."""
    table = Table(
        # Names fold where there is no room; numbers never do.
        Column("Strategy", overflow="fold", min_width=9),
        *(Column(name, justify="right", no_wrap=True) for name, _ in columns),
        # Text, since a name may hold brackets, which would be taken for markup.
        title=Text(title, style="bold"),
        caption=caption,
        box=box.SIMPLE_HEAD,
        collapse_padding=True,  # so that 80 columns are enough
        padding=(0, 1 if len(columns) <= ROOMY else 0),
        pad_edge=False,
        show_edge=len(columns) < ROOMY,
    )
    for strategy, runs in cells.items():
        table.add_row(Text(strategy_title(strategy)), *(cell(runs) for _, cell in columns))
    return table


def _by_level(results: Sequence[Result]) -> dict[tuple[str, float], Cells]:
    return by_level({run_of(result): result for result in results})


def _cell(name: str, runs: Sequence[Result], *, ranged: bool = True) -> Text:
    if not (values := _values(name, runs)):
        return Text("-")
    style = "bold red" if name.endswith("round_time") and max(values) > 1 else ""
    if name == "max_round_time":  # of all seeds: a deadline is missed or it is not
        return Text(f"{max(values):.2f}", style)
    percent = "accuracy" in name or "share" in name
    scale, digits, unit = (100, 1, " %") if percent else (1, 3 if "loss" in name else 2, "")
    parts = (statistics.median(values), min(values), max(values))
    median, low, high = (f"{scale * value:.{digits}f}" for value in parts)
    spread = "" if low == high or "share" in name or not ranged else f"\n{low}-{high}"
    return Text(f"{median}{unit}{spread}", style)


def _reached(place: int, runs: Sequence[Result]) -> Text:
    """The median time to a target over all seeds, endless for one that does not reach it."""
    known = [every[place]["seconds"] for run in runs if (every := run.get("time_to_accuracy"))]
    if not known:
        return Text("-")
    count = sum(seconds is not None for seconds in known)
    middle = statistics.median(math.inf if seconds is None else seconds for seconds in known)
    some = f"{count} of {len(known)}"
    if math.isinf(middle):
        return Text(f"{some if count else 'not'}\nreached")
    return Text(short(middle) + (f"\n{some}" if count < len(known) else ""))


def _spent(runs: Sequence[Result]) -> Text:
    """Seconds that clients spent, and which share of them was for nothing."""
    if not (spent := _values("client_seconds", runs)):
        return Text("-")
    share = sum(_values("wasted_client_seconds", runs)) / max(sum(spent), 1e-300)
    return Text(short(statistics.median(spent)) + (f"\n({100 * share:.0f} %)" if share else ""))


def _pair(names: Sequence[str], runs: Sequence[Result]) -> Text:
    """Two medians, one below the other."""
    found = [_values(name, runs) for name in names]
    return Text("\n".join(short(statistics.median(values)) if values else "-" for values in found))


def doubling_bins(sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """(least, most, clients) of bins that double, for sizes follow a power law: 1, 2-3, 4-7."""
    places = [size.bit_length() for size in sizes]
    every = range(min(places), max(places) + 1)
    return [(1 << place >> 1, (1 << place) - 1, places.count(place)) for place in every]


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
