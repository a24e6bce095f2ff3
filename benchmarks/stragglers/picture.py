"""Accuracy by time as a picture: all methods in grey, some of them by name."""

from __future__ import annotations

import statistics
from pathlib import Path

from benchmarks.stragglers.figures import Study, results_of, title_of
from fedcore.report.plots import COLOURS

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "stragglers.png"
NAMED = (
    *("fedavg", "fedprox", "fednova", "fedcore", "random-subset", "fedbuff"),
    *("ca2fl", "fedcore-buff"),
)
INK = (*COLOURS[:7], "#000000")  # the eighth is too pale for a line


def curve(study: Study, name: str) -> tuple[list[float], list[float]]:
    """Deadlines, and the median over seeds of accuracies in percent, from the first model on."""
    columns = list(zip(*(one["curve"] for one in results_of(study, name)), strict=True))
    step = study["deadlines"] / len(columns)
    known = [
        (step * place, 100 * statistics.median(column))
        for place, column in enumerate(columns, 1)
        if None not in column
    ]
    times, accuracies = zip(*known, strict=True) if known else ((), ())
    return list(times), list(accuracies)


def draw(studies: list[Study], path: Path = PICTURE) -> Path:
    """One panel for each fleet."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        1, len(studies), figsize=(5.5 * len(studies), 5), sharey=True, squeeze=False
    )
    for study, axes in zip(studies, panels[0], strict=True):
        for name in study["methods"]:
            if name not in NAMED:
                axes.plot(*curve(study, name), color="#BBBBBB", linewidth=0.7)
        for name, colour in zip(NAMED, INK, strict=True):
            if name in study["methods"]:
                style = {
                    "color": colour,
                    "label": title_of(study, name),
                    "linewidth": 2.4 if name.startswith("fedcore") else 1.5,
                    # It lies on FedCore's line, which is to be seen below it.
                    "linestyle": "--" if name == "random-subset" else "-",
                }
                axes.plot(*curve(study, name), **style)
        axes.set_title(f"Fleet: {study['fleet']}")
        axes.set_xlabel("Virtual time in deadlines")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    panels[0][0].set_ylabel("Test accuracy, %, median of the seeds")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return path
