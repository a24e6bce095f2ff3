"""What results say, in words and numbers, for whoever writes them: a terminal, a page, a file."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from fedcore import plugins
from fedcore.report.records import by_level, run_of

Result = dict[str, Any]
Cells = dict[str, list[Result]]  # results of one level by strategy, one per seed

LEVEL = 0.01  # accuracies that differ by less are called level
NOUNS = {"rejected": "answer", "fell_back": "coreset"}  # what a result counts of what went wrong
FAULTS = {
    "rejected": "left out {} that held NaN or infinity; a smaller --learning-rate may help",
    "fell_back": "took plain draws in place of {}, where their selector failed",
}


class Cell(NamedTuple):
    """A text, a style (``late``, ``paper``), where it leads, its own name, and notes to it."""

    text: str
    style: str = ""
    link: str = ""
    anchor: str = ""
    notes: tuple[str, ...] = ()


class Grid(NamedTuple):
    """Rows of cells; the first ``names`` of each say what it is of."""

    title: str
    head: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    names: int = 1
    caption: str = ""


Columns = list[tuple[str, Callable[[Sequence[Result]], Cell]]]  # title, and cell of some runs

# By name, two lines of title of the number below them: of the first table, and of the second.
COLUMNS = {"final_test_accuracy": "Accuracy,\nlast round", "best_test_accuracy": "best\nround"}
COLUMNS |= {"final_train_loss": "Training\nloss", "mean_round_time": "Mean\nround"}
COLUMNS |= {"max_round_time": "Longest\nround", "deadline_miss_share": "Rounds\nlate"}
SERVED = {"slow_accuracy": "Slow\nclients", "worst_accuracy": "Worst\ntenth"}
SERVED |= {"participation_fairness": "Jain\nindex"}
COST_CAPTION = """Virtual seconds to the first evaluation at or above an accuracy.
Slow ({:,} of {}: E epochs take them past the deadline)
and the worst tenth of clients: accuracy on their own training data.
Jain's index: 1 where all clients are merged equally often.
Client-seconds: all that clients spent (and the share that was lost).
Of seeds the median; k, M, G: thousands, millions, billions."""
STALE = "\nStale: merges while an answer was made, in the mean and at most."
WIDEST = 9  # columns of numbers that 80 characters have room for


def level_grids(results: Sequence[Result]) -> Iterator[Grid]:
    """One table per benchmark and share of stragglers; seeds are medians, with ranges below."""
    for (benchmark, stragglers), cells in results_by_level(results).items():
        first = next(iter(cells.values()))
        several = len(first) > 1
        seeds = f"{len(first)} seeds" if several else f"seed {first[0]['seed']}"
        counts = sorted({run["rounds"] for runs in cells.values() for run in runs})
        rounds = (f"{counts[0]:,} to " if len(counts) > 1 else "") + counted(counts[-1], "round")
        title = f"{benchmark}, {stragglers:g} % stragglers, {rounds}, {seeds}"
        caption = f"Accuracy on data nobody trained on; 1.00 is the deadline at {stragglers:g} %."
        caption += "\nMedian of the seeds, and from the least to the largest of them." * several
        asked = [name for name in first[0] if name.startswith("final_test_")]
        own = {name: f"{name.removeprefix('final_test_')},\nlast round" for name in asked}
        titles = dict([*COLUMNS.items()][:2]) | own | COLUMNS  # metrics follow the accuracies
        columns: Columns = [(text, partial(cell_of, name)) for name, text in titles.items()]
        yield _grid(title, caption, columns, cells)


def cost_grids(results: Sequence[Result]) -> Iterator[Grid]:
    """What every strategy cost and whom it served, for each level; seeds are medians."""
    for (benchmark, stragglers), cells in results_by_level(results).items():
        every = [run for runs in cells.values() for run in runs]
        known = next((run for run in every if run.get("deadline_seconds") is not None), None)
        if known is None:  # results of an earlier version
            continue
        goals = [f"Seconds\n{100 * time['target']:.3g} %" for time in known["time_to_accuracy"]]
        columns: Columns = [(goal, partial(_reached, place)) for place, goal in enumerate(goals)]
        columns += [(title, partial(cell_of, name, ranged=False)) for name, title in SERVED.items()]
        columns.append(("Client-\nseconds", _spent))
        columns.append(("Bytes\ndown,up", partial(_pair, ("bytes_down", "bytes_up"))))
        slow = statistics.median_low(values_of("slow_clients", every))
        caption = COST_CAPTION.format(slow, counted(known["clients"], "client"))
        if values_of("largest_staleness", every):
            caption += STALE
            names = ("mean_staleness", "largest_staleness")
            columns.append(("Stale,\nmost", partial(_pair, names)))
        title = f"{benchmark}, {stragglers:g} % stragglers: what it cost, and whom it served"
        most = WIDEST if len(columns) <= WIDEST else len(COLUMNS)  # of one table
        for start in range(0, len(columns), most):
            yield _grid(title, caption, columns[start : start + most], cells)


def _grid(title: str, caption: str, columns: Columns, cells: Cells) -> Grid:
    """A row per strategy."""
    head = [Cell(name) for name in ("Strategy", *(name for name, _ in columns))]
    numbers = {strategy: [cell(runs) for _, cell in columns] for strategy, runs in cells.items()}
    rows = [[Cell(strategy_title(name)), *found] for name, found in numbers.items()]
    return Grid(title, head, rows, caption=caption)


def cell_of(name: str, runs: Sequence[Result], *, ranged: bool = True) -> Cell:
    """The median of seeds, and their range below it where they differ."""
    if not (values := values_of(name, runs)):
        return Cell("-")
    long = name.endswith("round_time") and max(values) > 1  # which a controller may have allowed
    style = "late" if long and any(values_of("deadline_miss_share", runs)) else ""
    if name == "max_round_time":  # of all seeds: a deadline is missed or it is not
        return Cell(f"{max(values):.2f}", style)
    percent = "accuracy" in name or "share" in name
    scale, digits, unit = (100, 1, " %") if percent else (1, 3 if "loss" in name else 2, "")
    parts = (statistics.median(values), min(values), max(values))
    median, low, high = (f"{scale * value:.{digits}f}" for value in parts)
    spread = "" if low == high or "share" in name or not ranged else f"\n{low}-{high}"
    return Cell(f"{median}{unit}{spread}", style)


def _reached(place: int, runs: Sequence[Result]) -> Cell:
    """The median time to a target over all seeds, endless for one that does not reach it."""
    known = [every[place]["seconds"] for run in runs if (every := run.get("time_to_accuracy"))]
    if not known:
        return Cell("-")
    count = sum(seconds is not None for seconds in known)
    middle = statistics.median(math.inf if seconds is None else seconds for seconds in known)
    some = f"{count} of {len(known)}"
    if math.isinf(middle):
        return Cell(f"{some if count else 'not'}\nreached")
    return Cell(short(middle) + (f"\n{some}" if count < len(known) else ""))


def _spent(runs: Sequence[Result]) -> Cell:
    """Seconds that clients spent, and which share of them was for nothing."""
    if not (spent := values_of("client_seconds", runs)):
        return Cell("-")
    share = sum(values_of("wasted_client_seconds", runs)) / max(sum(spent), 1e-300)
    return Cell(short(statistics.median(spent)) + (f"\n({100 * share:.0f} %)" if share else ""))


def _pair(names: Sequence[str], runs: Sequence[Result]) -> Cell:
    """Two medians, one below the other."""
    found = [values_of(name, runs) for name in names]
    return Cell("\n".join(short(statistics.median(values)) if values else "-" for values in found))


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


def remarks(results: Sequence[Result]) -> Iterator[str]:
    """What each table shows, and a sentence for whatever did not go as it should."""
    levels = results_by_level(results)
    for (_, stragglers), cells in levels.items():
        if shown := _finding(cells):
            yield f"At {stragglers:g} % stragglers, {shown}."
    for (_, stragglers), cells in levels.items():
        for strategy, runs in cells.items():
            for name, sentence in FAULTS.items():
                if count := sum(run.get(name, 0) for run in runs):
                    who = f"{strategy_title(strategy)} at {stragglers:g} % stragglers"
                    yield f"{who} {sentence.format(counted(count, NOUNS[name]))}."


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
    found = {s: values_of("final_test_accuracy", runs) for s, runs in cells.items()}
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
        length = statistics.median(values_of("mean_round_time", cells[strategy]))
        parts.append(f"late: {told[strategy]}, in rounds of {length:.1f} deadlines")
    return "; ".join(parts)


def values_of(name: str, runs: Sequence[Result]) -> list[float]:
    """A number of several runs, where it is known."""
    return [run[name] for run in runs if run.get(name) is not None]


def results_by_level(results: Sequence[Result]) -> dict[tuple[str, float], Cells]:
    """Results by (benchmark, share of stragglers), then by strategy."""
    return by_level({run_of(result): result for result in results})


def doubling_bins(sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """(least, most, clients) of bins that double, for sizes follow a power law: 1, 2-3, 4-7."""
    places = [size.bit_length() for size in sizes]
    every = range(min(places), max(places) + 1)
    return [(1 << place >> 1, (1 << place) - 1, places.count(place)) for place in every]
