"""Results as pictures: loss, accuracy over rounds and over time, and how long rounds lasted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedcore.report.records import Row, group
from fedcore.report.tables import strategy_title
from fedcore.types import RunKey

# Colours that stay apart for colour-blind readers (Okabe and Ito); FedCore has the strongest.
COLOURS = {"fedavg": "#555555", "fedavg-ds": "#E69F00", "fedprox": "#0072B2", "fedcore": "#D55E00"}
SPARE = ("#009E73", "#CC79A7", "#56B4E9", "#F0E442")

Draw = Callable[[Any, RunKey, list[Row], dict[str, Any]], None]


def draw_all(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write every picture into ``folder``; returns their paths."""
    pictures = (
        ("loss.png", "Round", "Training loss", _loss),
        ("accuracy_by_round.png", "Round", "Test accuracy", _accuracy_by_round),
        ("accuracy_by_time.png", "Time in deadlines (log)", "Test accuracy", _accuracy_by_time),
    )
    paths = [_lines(rows, folder / name, x, y, draw) for name, x, y, draw in pictures]
    return [*paths, _round_lengths(rows, folder / "round_lengths.png")]


def _loss(axes: Any, key: RunKey, run: list[Row], style: dict[str, Any]) -> None:
    axes.plot([row["round"] for row in run], _series(run, "train_loss"), **style)


def _accuracy_by_round(axes: Any, key: RunKey, run: list[Row], style: dict[str, Any]) -> None:
    axes.plot([row["round"] for row in run], _series(run, "test_accuracy"), **style)


def _accuracy_by_time(axes: Any, key: RunKey, run: list[Row], style: dict[str, Any]) -> None:
    elapsed = np.cumsum([row["round_time"] for row in run])
    axes.plot(elapsed, _series(run, "test_accuracy"), **style)
    if elapsed[-1] > 0:  # where everybody sat out, no time has passed
        axes.set_xscale("log")


def _series(run: list[Row], name: str) -> list[float]:
    """Values over rounds; what is missing or diverged leaves a gap."""
    return [float("nan") if row[name] is None else row[name] for row in run]


def _lines(rows: Sequence[Row], path: Path, x: str, y: str, draw: Draw) -> Path:
    runs = group(rows)
    figure, panels = _panels(runs)
    for axes, level in zip(panels, _levels(runs), strict=True):
        drawn: set[str] = set()
        for key, run in runs.items():
            if (key.benchmark, key.stragglers) != level:
                continue
            style = _style(key.strategy, runs)
            if key.strategy in drawn:  # further seeds: thinner, and once in the legend
                style = {**style, "label": None, "linewidth": 0.7, "alpha": 0.6}
            drawn.add(key.strategy)
            draw(axes, key, run, style)
        axes.set_xlabel(x)
        axes.grid(alpha=0.25)
    panels[0].set_ylabel(y)
    panels[-1].legend(frameon=False)
    return _save(figure, path)


def _round_lengths(rows: Sequence[Row], path: Path) -> Path:
    """How long rounds lasted, deadline = 1 (the paper's Figures 5 and 8)."""
    runs = group(rows)
    figure, panels = _panels(runs)
    strategies = list(dict.fromkeys(key.strategy for key in runs))
    for axes, level in zip(panels, _levels(runs), strict=True):
        for place, strategy in enumerate(strategies):
            lengths = [
                row["round_time"]
                for key, run in runs.items()
                if (key.benchmark, key.stragglers, key.strategy) == (*level, strategy)
                for row in run
                if row["round_time"] > 0  # a round that everybody sat out has no length
            ]
            if lengths:
                _violin(axes, place, np.log10(lengths), _style(strategy, runs)["color"])
        axes.axhline(0, color="black", linestyle="--", linewidth=1)
        axes.annotate("deadline", (0.98, 0.01), xycoords=("axes fraction", "data"), ha="right")
        axes.set_xticks(range(len(strategies)), [strategy_title(s) for s in strategies])
        axes.set_yticks(marks := np.log10([0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50]))
        axes.set_yticklabels([f"{10**mark:g}" for mark in marks])
        axes.grid(axis="y", alpha=0.25)
    lengths = [row["round_time"] for row in rows if row["round_time"] > 0] or [1.0]
    panels[0].set_ylim(np.log10(min(lengths)) - 0.15, max(0.2, np.log10(max(lengths)) + 0.15))
    panels[0].set_ylabel("Length of a round in deadlines (log)")
    return _save(figure, path)


def _violin(axes: Any, place: int, values: Any, colour: str) -> None:
    if np.ptp(values) < 1e-9:  # a violin of equal values has no width
        axes.plot([place], [values[0]], marker="_", markersize=40, color=colour)
        return
    parts = axes.violinplot(values, [place], widths=0.8, showmedians=True)
    for name, part in parts.items():
        for body in part if name == "bodies" else [part]:
            body.set_color(colour)


def _levels(runs: dict[RunKey, list[Row]]) -> list[tuple[str, float]]:
    return list(dict.fromkeys((key.benchmark, key.stragglers) for key in runs))


def _style(strategy: str, runs: dict[RunKey, list[Row]]) -> dict[str, Any]:
    others = [s for s in dict.fromkeys(key.strategy for key in runs) if s not in COLOURS]
    colour = COLOURS.get(strategy) or SPARE[others.index(strategy) % len(SPARE)]
    width = 2.4 if strategy == "fedcore" else 1.5
    return {"label": strategy_title(strategy), "color": colour, "linewidth": width}


def _panels(runs: dict[RunKey, list[Row]]) -> tuple[Any, list[Any]]:
    """One panel per benchmark and share of stragglers, side by side."""
    from matplotlib.figure import Figure  # no global state, no window

    levels = _levels(runs)
    figure = Figure(figsize=(5.2 * len(levels), 4.0), layout="constrained", dpi=120)
    panels = list(figure.subplots(1, len(levels), sharey=True, squeeze=False)[0])
    for axes, (benchmark, stragglers) in zip(panels, levels, strict=True):
        axes.set_title(f"{benchmark}, {stragglers:g} % stragglers")
    return figure, panels


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path)
    return path
