"""Results as pictures: loss, accuracy, lengths of rounds, clients at work; sizes of clients."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from fedcore.errors import BadOption
from fedcore.records import RoundRecord, Waste
from fedcore.report.grids import strategy_title
from fedcore.report.output import PICTURES
from fedcore.report.paper import curves
from fedcore.report.records import Runs, by_level

# Colours that stay apart for colour-blind readers (Okabe and Ito), in the order of strategies.
COLOURS = ["#555555", "#E69F00", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442"]
Names = Sequence[str]
Colours = dict[str, str]  # by strategy
WIDTH, HEIGHT = 5.2, 4.0  # of a panel, in inches
PER_VIOLIN = 0.9  # inches of width that a violin needs
PER_LETTER = 0.085  # inches of width that a letter of a label takes
SHOWN = 6.0  # deadlines of a timeline
DOING = {"waits for a merge": "#CCCCCC", "works": "#0072B2", "work is wasted": "#D55E00"}


def draw_all(runs: Runs, folder: Path, endings: Names = (".png",), names: Names = ()) -> None:
    """Write every picture, as ``endings`` say; strategies have colours by ``names``, then runs."""
    every = dict.fromkeys([*names, *(run.strategy for run in runs)])
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(every)}
    figures = (
        _lines(runs, colours, "Training loss", "train_loss"),
        _lines(runs, colours, "Test accuracy", "test_accuracy"),
        _lines(runs, colours, "Test accuracy", "test_accuracy", over_time=True),
        _violins(runs, colours, "Length of a round in deadlines (log)"),
        _violins(runs, colours, "Time of a client in deadlines (log)", by_client=True),
        _timeline(runs),
    )
    for (name, figure), ending in product(zip(PICTURES, figures, strict=True), endings):
        figure.savefig((folder / name).with_suffix(ending))


def draw_advice(points: Sequence[tuple[float, float, float]], path: Path) -> None:
    """Time to a target over deadlines, with the factor within which 80 % of runs lie."""
    figure, ((axes,),) = canvas(1, 1, WIDTH, HEIGHT)
    deadlines, times, factors = np.array([one for one in points if one[1] < np.inf]).T
    low, high = times / factors, times * factors
    axes.errorbar(deadlines, times, [times - low, high - times], marker="o")
    what = "Seconds to the target" if factors.max() > 1 else "Relative time, by arithmetic"
    axes.set(xlabel="Deadline in seconds (log)", ylabel=f"{what} (log)")
    _log_axis(axes.xaxis, deadlines.tolist())
    _log_axis(axes.yaxis, [*low, *high])
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise BadOption(f"plot {str(path)!r} cannot be written: {error}") from None


def _lines(runs: Runs, colours: Colours, text: str, name: str, *, over_time: bool = False) -> Any:
    """A value over rounds or time: of each seed a thin line to its end, of medians a strong one."""
    from matplotlib.ticker import MaxNLocator

    figure, panels = _panels(runs, WIDTH)
    for axes, (at, level) in zip(panels, by_level(runs).items(), strict=True):
        printed = {} if over_time else curves(*at)
        for order, (strategy, colour) in enumerate(colours.items()):
            own = [_curve(run, name, over_time=over_time) for run in level.get(strategy, [])]
            style = {"color": colour, "zorder": 3 + order}
            for curve in own if len(own) > 1 else ():
                _line(axes, [*curve.values()], linewidth=0.6, alpha=0.5, **style)
            if shared := [n for n in own[0] if all(n in curve for curve in own)] if own else []:
                middle = np.median([[curve[n] for n in shared] for curve in own], axis=0)
                _line(axes, middle, linewidth=1.8, label=strategy_title(strategy), **style)
                theirs = printed.get(strategy, {}).get(name, ())  # of the paper
                axes.plot(*theirs, linewidth=1, linestyle=":", alpha=0.7, **style)
        axes.set_xlabel("Time in deadlines (log)" if over_time else "Round")
        axes.grid(alpha=0.25)
        if over_time:
            _log_axis(axes.xaxis, [time for line in axes.lines for time in line.get_xdata()])
        else:  # there is no half of a round
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    panels[0].set_ylabel(text)
    if panels[-1].get_legend_handles_labels()[0]:
        panels[-1].legend(frameon=False)
    return figure


def _curve(run: list[RoundRecord], name: str, *, over_time: bool) -> dict[int, list[Any]]:
    """Place and value by round, of those that were measured; what diverged leaves a gap."""
    places = np.cumsum([r.time for r in run]) if over_time else [r.number for r in run]
    values = np.array([getattr(record, name) for record in run], float)
    every = zip(run, places, np.where(np.isfinite(values), values, np.nan), strict=True)
    return {record.number: pair for record, *pair in every if record.measured}


def _line(axes: Any, points: Sequence[Any], **style: Any) -> None:
    """One line; a logarithm has no place for a time at which none has passed."""
    places, values = np.reshape([one for one in points if one[0] > 0], (-1, 2)).T
    axes.plot(places, values, marker="o" if len(places) == 1 else None, **style)


def _log_axis(axis: Any, values: list[float], room: float = 0.0) -> None:
    """A logarithmic scale with plain numbers, 20 and not 2 x 10^1, and room for a word above."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    if not values:  # where everybody sat out, no time has passed
        return
    edge = max((max(values) / min(values)) ** 0.05, 1.05)
    low, high = min(values) / edge, max(values) * edge ** (1 + room)
    name, factors = axis.axis_name, (1.0, 2.0, 5.0) if high / low < 1000 else (1.0,)
    axis.axes.set(**{f"{name}scale": "log", f"{name}lim": (low, high)})
    few = high / low < 8  # less than a decade: 1, 2 and 5 would be few
    steps = MaxNLocator(6, steps=[1, 2, 5, 10])
    axis.set_major_locator(steps if few else LogLocator(subs=factors, numticks=50))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def _violins(runs: Runs, colours: Colours, title: str, *, by_client: bool = False) -> Any:
    """A violin per strategy, of rounds, or of clients (the paper's Figures 4 and 7)."""
    strategies = list(dict.fromkeys(run.strategy for run in runs))
    titles = [strategy_title(strategy) for strategy in strategies]
    width = max(WIDTH, PER_VIOLIN * len(strategies) + 1)
    figure, panels = _panels(runs, width)
    every = [1.0]
    for axes, level in zip(panels, by_level(runs).values(), strict=True):
        for place, strategy in enumerate(strategies):
            records = [record for run in level.get(strategy, []) for record in run]
            times = [record.time for record in records if not record.cut]
            if by_client:
                times = [c.seconds / record.deadline for record in records for c in record.clients]
            lengths = [time for time in times if time > 0]  # who sits out takes no time
            every += lengths
            if lengths:
                _violin(axes, place, lengths, colours[strategy])
        axes.axhline(1, color="black", linestyle="--", linewidth=1)
        where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate("deadline", (0.99, 1), xytext=(0, 2), ha="right", **where)
        axes.set_xticks(range(len(strategies)), titles)
        if PER_LETTER * max(map(len, titles)) > (width - 1) / (len(titles) + 0.75):
            # Wider than its place: aslant, none runs into the next.
            axes.tick_params(axis="x", labelrotation=30)
            for label in axes.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
        axes.set_xlim(-0.6, len(strategies) + 0.15)  # room for the label
        axes.grid(axis="y", alpha=0.25)
    for axes in panels:
        _log_axis(axes.yaxis, every, room=1)
    panels[0].set_ylabel(title)
    return figure


def _violin(axes: Any, place: int, times: list[float], colour: str) -> None:
    """A violin whose density is that of the logarithms, as the axis shows it."""
    from matplotlib import cbook, mlab

    values = np.log10(times)
    if np.ptp(values) < 1e-9:  # a violin of equal values has no width
        axes.plot([place], times[:1], marker="_", markersize=40, color=colour)
        return
    (shape,) = cbook.violin_stats([values], lambda x, at: mlab.GaussianKDE(x).evaluate(at))
    shape |= {name: 10 ** shape[name] for name in ("coords", "median", "min", "max")}
    for name, part in axes.violin([shape], [place], widths=0.8, showmedians=True).items():
        for body in part if name == "bodies" else [part]:
            body.set_color(colour)
            body.set_alpha(0.7 if name == "bodies" else 1.0)


def spans(rounds: Sequence[RoundRecord]) -> list[tuple[int, str, float, float]]:
    """(client, what it does, from, to) in deadlines, of every job that was heard of."""
    waits, works, wasted = DOING
    found, began = [], 0.0
    for record in rounds:
        merge = began + record.time
        for client in (client for client in record.clients if client.work > 0):
            ended = client.seconds if client.ended is None else client.ended
            stopped = client.wasted is Waste.CANCELLED  # when the others were merged
            end = merge if stopped else began + ended / record.deadline
            start = end - client.seconds / record.deadline
            doing = wasted if client.wasted and not record.cut else works  # but for the run's end
            found.append((client.client_id, doing, start, end))
            if client.wasted is None:
                found.append((client.client_id, waits, end, merge))
        began = merge
    return found


def _timeline(runs: Runs) -> Any:
    """Clients as rows over the first deadlines, merges as lines: the last level, its first seed."""
    from matplotlib.patches import Patch

    (benchmark, stragglers), level = list(by_level(runs).items())[-1]
    figure, panels = canvas(len(level), 1, 2 * WIDTH, 0.8 + 0.4 * HEIGHT * len(level), sharex=True)
    for axes, (strategy, (first, *_)) in zip(panels[:, 0], level.items(), strict=True):
        seen = [span for span in spans(first) if span[2] < SHOWN]
        rows = {client: row for row, client in enumerate(sorted({span[0] for span in seen}))}
        for client, doing, start, end in seen:
            over = list(DOING).index(doing)  # who waits may have begun something new
            axes.barh(rows[client], end - start, 0.8, start, color=DOING[doing], zorder=over)
        merges = np.cumsum([record.time for record in first])
        for merge in merges[merges <= SHOWN]:
            axes.axvline(merge, color="black", linewidth=0.6)
        axes.set(yticks=[], ylabel="Clients", title=strategy_title(strategy), xlim=(0, SHOWN))
    panels[-1, 0].set_xlabel("Time in deadlines")
    keys = [Patch(color=colour, label=doing) for doing, colour in DOING.items()]
    figure.legend(handles=keys, loc="outside lower center", ncols=len(DOING), frameon=False)
    figure.suptitle(f"{benchmark}, {stragglers:g} % stragglers")
    return figure


def canvas(rows: int, columns: int, width: float, height: float, **shared: Any) -> Any:
    """A figure and its panels [rows, columns]; there is no global state, and no window."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=120)
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def _panels(runs: Runs, width: float) -> tuple[Any, Any]:
    """One panel per benchmark and share of stragglers, side by side."""
    levels = list(by_level(runs))
    figure, (panels,) = canvas(1, len(levels), width * len(levels), HEIGHT, sharey=True)
    for axes, (benchmark, stragglers) in zip(panels, levels, strict=True):
        axes.set_title(f"{benchmark}, {stragglers:g} % stragglers")
    return figure, panels
