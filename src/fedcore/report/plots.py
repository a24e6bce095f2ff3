"""Results as pictures: loss, accuracy over rounds and over time, and how long rounds lasted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.records import RunKey
from fedcore.report.output import PICTURES
from fedcore.report.records import Row, group
from fedcore.report.tables import strategy_title

# Colours that stay apart for colour-blind readers (Okabe and Ito); FedCore has the strongest.
COLOURS = {"fedavg": "#555555", "fedavg-ds": "#E69F00", "fedprox": "#0072B2", "fedcore": "#D55E00"}
SPARE = ("#009E73", "#CC79A7", "#56B4E9", "#F0E442")

PANEL = (5.2, 4.0)  # inches
PER_VIOLIN = 0.9  # inches of width that a violin needs
PER_LETTER = 0.085  # inches of width that a letter of a label takes
STEPS = 200  # places at which a band over time is drawn

Runs = dict[RunKey, list[Row]]
Curve = tuple[NDArray[np.float64], NDArray[np.float64]]  # where, and the value there
Values = NDArray[np.float64]


def draw_all(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write every picture into ``folder``; returns their paths."""
    loss, by_round, by_time, lengths, clients = (folder / name for name in PICTURES)
    return [
        _lines(rows, loss, "Round", "Training loss", _by_round("train_loss")),
        _lines(rows, by_round, "Round", "Test accuracy", _by_round("test_accuracy")),
        _lines(rows, by_time, "Time in deadlines (log)", "Test accuracy", _by_time, log=True),
        _violins(rows, lengths, "Length of a round in deadlines (log)", _round_lengths),
        _violins(rows, clients, "Time of a client in deadlines (log)", _client_times),
    ]


def _by_round(name: str) -> Callable[[list[Row]], Curve]:
    def curve(run: list[Row]) -> Curve:
        return np.array([row["round"] for row in run], float), _series(run, name)

    return curve


def _by_time(run: list[Row]) -> Curve:
    """Accuracy over the time that has passed; a logarithm has no place for none."""
    elapsed = np.cumsum([row["round_time"] for row in run])
    return elapsed[elapsed > 0], _series(run, "test_accuracy")[elapsed > 0]


def _series(run: list[Row], name: str) -> Values:
    """Values over rounds; what is missing or diverged leaves a gap."""
    return np.array([np.nan if row[name] is None else row[name] for row in run], float)


def _lines(
    rows: Sequence[Row],
    path: Path,
    x: str,
    y: str,
    curve: Callable[[list[Row]], Curve],
    *,
    log: bool = False,
) -> Path:
    runs = group(rows)
    figure, panels = _panels(runs, PANEL[0])
    for axes, level in zip(panels, _levels(runs), strict=True):
        for strategy in _strategies(runs):
            curves = [curve(run) for run in _runs_of(runs, level, strategy)]
            places, values = _together([c for c in curves if len(c[0])], log=log)
            if len(places):
                _band(axes, places, values, _style(strategy, runs))
        axes.set_xlabel(x)
        axes.grid(alpha=0.25)
        if log:
            _mark_times(axes)
        else:
            _mark_rounds(axes)
    panels[0].set_ylabel(y)
    if panels[-1].get_legend_handles_labels()[0]:
        panels[-1].legend(frameon=False)
    return _save(figure, path)


def _together(curves: list[Curve], *, log: bool) -> tuple[Values, Values]:
    """Curves of all seeds at the same places: the places, and one row of values per seed.

    Rounds are the same for all of them. Times are not: there a seed is read, between two rounds
    on a straight line, at even steps of the time that all of them cover.
    """
    if not curves or len(curves) == 1 or not log:
        shortest = min((len(where) for where, _ in curves), default=0)
        places = curves[0][0][:shortest] if curves else np.empty(0)
        return places, np.array([values[:shortest] for _, values in curves])
    first = max(where[0] for where, _ in curves)
    last = min(where[-1] for where, _ in curves)
    if first >= last:  # they have no time in common: as good as one seed
        return curves[0][0], curves[0][1][None]
    places = np.geomspace(first, last, STEPS)
    return places, np.array([np.interp(places, where, values) for where, values in curves])


def _band(axes: Any, places: Values, values: Values, style: dict[str, Any]) -> None:
    """The median as a line; with several seeds, their range as a light band."""
    known = ~np.isnan(values).any(axis=0)  # a seed without a value leaves a gap
    median = np.full(len(places), np.nan)
    median[known] = np.median(values[:, known], axis=0)
    axes.plot(places, median, marker="o" if len(places) == 1 else None, **style)
    if len(values) > 1:
        axes.fill_between(
            places,
            values.min(axis=0),
            values.max(axis=0),
            where=known,
            color=style["color"],
            alpha=0.18,
            linewidth=0,
            zorder=2,  # below every line
        )


def _mark_rounds(axes: Any) -> None:
    """There is no half of a round."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _mark_times(axes: Any) -> None:
    """A logarithmic scale with times in plain numbers: 20, not 2 x 10^1."""
    times = [float(time) for line in axes.lines for time in line.get_xdata()]
    if not times:  # where everybody sat out, no time has passed
        return
    room = max((max(times) / min(times)) ** 0.05, 1.2)
    low, high = min(times) / room, max(times) * room
    marks = round_numbers(low, high)
    axes.set_xscale("log")
    axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(low, high)


def round_numbers(low: float, high: float) -> list[float]:
    """Some round numbers from ``low`` to ``high``, for a logarithmic scale.

    >>> round_numbers(0.4, 60)
    [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
    >>> round_numbers(0.9, 1.1)
    [0.9, 0.95, 1.0, 1.05, 1.1]
    """
    from matplotlib.ticker import MaxNLocator

    if high / low < 8:  # less than a decade: 1, 2 and 5 would be few
        found = [
            float(f"{mark:g}")
            for mark in MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, high)
        ]
    else:
        factors = (1, 2, 5) if high / low < 1000 else (1,)
        decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
        found = [float(f"{factor}e{decade}") for decade in decades for factor in factors]
    return [mark for mark in found if low <= mark <= high and mark > 0]


def _round_lengths(row: Row) -> list[float]:
    return [row["round_time"]]


def _client_times(row: Row) -> list[float]:
    """What the paper's Figures 4 and 7 show: every client of every round."""
    return [client["time"] for client in row["clients"]]


def _violins(rows: Sequence[Row], path: Path, y: str, times: Callable[[Row], list[float]]) -> Path:
    """One violin per strategy, deadline = 1, on a logarithmic scale."""
    runs = group(rows)
    strategies = _strategies(runs)
    width = max(PANEL[0], PER_VIOLIN * len(strategies) + 1)
    figure, panels = _panels(runs, width)
    titles = [strategy_title(strategy) for strategy in strategies]
    for axes, level in zip(panels, _levels(runs), strict=True):
        for place, strategy in enumerate(strategies):
            lengths = [
                time
                for run in _runs_of(runs, level, strategy)
                for row in run
                for time in times(row)
                if time > 0  # who sits out takes no time
            ]
            if lengths:
                _violin(axes, place, np.log10(lengths), _style(strategy, runs)["color"])
        axes.axhline(0, color="black", linestyle="--", linewidth=1)
        axes.annotate(
            "deadline",
            (0.99, 0),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="right",
        )
        axes.set_xticks(range(len(strategies)), titles)
        if PER_LETTER * max(map(len, titles)) > (width - 1) / (len(titles) + 0.75):
            # Wider than its place: aslant, none runs into the next.
            axes.tick_params(axis="x", labelrotation=30)
            for label in axes.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
        axes.set_xlim(-0.6, len(strategies) + 0.15)  # room for the label
        axes.grid(axis="y", alpha=0.25)
    every = [time for row in rows for time in times(row) if time > 0] or [1.0]
    _mark_lengths(panels, min(every), max(every))
    panels[0].set_ylabel(y)
    return _save(figure, path)


def _mark_lengths(panels: list[Any], least: float, most: float) -> None:
    """Limits that hold every time and the deadline, and round numbers between them."""
    low, high = min(least, 1.0), max(most, 1.0)
    room = max(0.05 * np.log10(high / low), 0.02)
    bottom, top = float(np.log10(low) - room), float(np.log10(high) + 2 * room)
    marks = round_numbers(10**bottom, 10**top)
    for axes in panels:
        axes.set_yticks(np.log10(marks), [f"{mark:g}" for mark in marks])
    panels[0].set_ylim(bottom, top)


def _violin(axes: Any, place: int, values: Any, colour: str) -> None:
    if np.ptp(values) < 1e-9:  # a violin of equal values has no width
        axes.plot([place], [values[0]], marker="_", markersize=40, color=colour)
        return
    parts = axes.violinplot(values, [place], widths=0.8, showmedians=True)
    for name, part in parts.items():
        for body in part if name == "bodies" else [part]:
            body.set_color(colour)
            body.set_alpha(0.7 if name == "bodies" else 1.0)


def _levels(runs: Runs) -> list[tuple[str, float]]:
    return list(dict.fromkeys((key.benchmark, key.stragglers) for key in runs))


def _strategies(runs: Runs) -> list[str]:
    return list(dict.fromkeys(key.strategy for key in runs))


def _runs_of(runs: Runs, level: tuple[str, float], strategy: str) -> list[list[Row]]:
    """The runs of a strategy at a level: one per seed."""
    wanted = (*level, strategy)
    return [
        run for key, run in runs.items() if (key.benchmark, key.stragglers, key.strategy) == wanted
    ]


def _style(strategy: str, runs: Runs) -> dict[str, Any]:
    others = [s for s in _strategies(runs) if s not in COLOURS]
    colour = COLOURS.get(strategy) or SPARE[others.index(strategy) % len(SPARE)]
    is_ours = strategy == "fedcore"  # on top of all others, whatever their order
    return {
        "label": strategy_title(strategy),
        "color": colour,
        "linewidth": 2.4 if is_ours else 1.5,
        "zorder": 4 if is_ours else 3,
    }


def _panels(runs: Runs, width: float) -> tuple[Any, list[Any]]:
    """One panel per benchmark and share of stragglers, side by side."""
    from matplotlib.figure import Figure  # no global state, no window

    levels = _levels(runs)
    figure = Figure(figsize=(width * len(levels), PANEL[1]), layout="constrained", dpi=120)
    panels = list(figure.subplots(1, len(levels), sharey=True, squeeze=False)[0])
    for axes, (benchmark, stragglers) in zip(panels, levels, strict=True):
        axes.set_title(f"{benchmark}, {stragglers:g} % stragglers")
    return figure, panels


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path)
    return path
