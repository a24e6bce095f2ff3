"""Results as pictures: loss, accuracy over rounds and over time, and how long rounds lasted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.records import RoundRecord
from fedcore.report.output import PICTURES
from fedcore.report.records import Runs
from fedcore.report.tables import strategy_title

# Colours that stay apart for colour-blind readers (Okabe and Ito), in the order of strategies.
COLOURS = (
    *("#555555", "#E69F00", "#0072B2", "#D55E00"),
    *("#009E73", "#CC79A7", "#56B4E9", "#F0E442"),
)

PANEL = (5.2, 4.0)  # inches
PER_VIOLIN = 0.9  # inches of width that a violin needs
PER_LETTER = 0.085  # inches of width that a letter of a label takes

Rounds = list[RoundRecord]
Values = NDArray[np.float64]


def draw_all(runs: Runs, folder: Path) -> list[Path]:
    """Write every picture into ``folder``; returns their paths."""
    loss, by_round, by_time, lengths, clients = (folder / name for name in PICTURES)
    return [
        _lines(runs, loss, "Training loss", "train_loss"),
        _lines(runs, by_round, "Test accuracy", "test_accuracy"),
        _lines(runs, by_time, "Test accuracy", "test_accuracy", over_time=True),
        _violins(runs, lengths, "Length of a round in deadlines (log)", _round_lengths),
        _violins(runs, clients, "Time of a client in deadlines (log)", _client_times),
    ]


def _lines(runs: Runs, path: Path, title: str, name: str, *, over_time: bool = False) -> Path:
    """A value over rounds or over the time that has passed, by strategy.

    With several seeds, a thin line for each, to its own end, and a strong one whose every point is
    a round: the median of its values at the median of its times. So it ends where tables do.
    """
    figure, panels = _panels(runs, PANEL[0])
    for axes, level in zip(panels, _levels(runs), strict=True):
        for order, strategy in enumerate(_strategies(runs)):
            seeds = _runs_of(runs, level, strategy)
            shared = min(map(len, seeds), default=0)
            places = [_elapsed(run) if over_time else _numbers(run) for run in seeds]
            values = [_series(run, name) for run in seeds]
            style = {"color": COLOURS[order % len(COLOURS)], "zorder": 3 + order}
            if len(seeds) > 1:
                for place, value in zip(places, values, strict=True):
                    _line(axes, place, value, linewidth=0.6, alpha=0.5, **style)
            _line(
                axes,
                np.median([place[:shared] for place in places], axis=0) if seeds else np.empty(0),
                np.median([value[:shared] for value in values], axis=0) if seeds else np.empty(0),
                linewidth=1.8,
                label=strategy_title(strategy),
                **style,
            )
        axes.set_xlabel("Time in deadlines (log)" if over_time else "Round")
        axes.grid(alpha=0.25)
        if over_time:
            _mark_times(axes)
        else:
            _mark_rounds(axes)
    panels[0].set_ylabel(title)
    if panels[-1].get_legend_handles_labels()[0]:
        panels[-1].legend(frameon=False)
    return _save(figure, path)


def _line(axes: Any, places: Values, values: Values, **style: Any) -> None:
    """One line; a logarithm has no place for a time at which none has passed."""
    passed = places > 0
    if passed.any():
        marker = "o" if passed.sum() == 1 else None
        axes.plot(places[passed], values[passed], marker=marker, **style)


def _numbers(run: Rounds) -> Values:
    return np.array([record.number for record in run], float)


def _elapsed(run: Rounds) -> Values:
    return np.cumsum([record.time for record in run], dtype=float)


def _series(run: Rounds, name: str) -> Values:
    """Values over rounds; what was not measured or diverged leaves a gap."""
    found = (getattr(record, name) for record in run)
    return np.array([np.nan if v is None or not np.isfinite(v) else v for v in found], float)


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


def _round_lengths(record: RoundRecord) -> list[float]:
    return [record.time]


def _client_times(record: RoundRecord) -> list[float]:
    """What the paper's Figures 4 and 7 show: every client of every round."""
    return [client.seconds / record.deadline for client in record.clients]


def _violins(runs: Runs, path: Path, y: str, times: Callable[[RoundRecord], list[float]]) -> Path:
    """One violin per strategy, deadline = 1, on a logarithmic scale."""
    strategies = _strategies(runs)
    width = max(PANEL[0], PER_VIOLIN * len(strategies) + 1)
    figure, panels = _panels(runs, width)
    titles = [strategy_title(strategy) for strategy in strategies]
    for axes, level in zip(panels, _levels(runs), strict=True):
        for place, strategy in enumerate(strategies):
            lengths = [
                time
                for run in _runs_of(runs, level, strategy)
                for record in run
                for time in times(record)
                if time > 0  # who sits out takes no time
            ]
            if lengths:
                _violin(axes, place, np.log10(lengths), COLOURS[place % len(COLOURS)])
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
    records = (record for run in runs.values() for record in run)
    every = [time for record in records for time in times(record) if time > 0] or [1.0]
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


def _runs_of(runs: Runs, level: tuple[str, float], strategy: str) -> list[Rounds]:
    """The runs of a strategy at a level: one per seed."""
    wanted = (*level, strategy)
    return [
        run for key, run in runs.items() if (key.benchmark, key.stragglers, key.strategy) == wanted
    ]


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
