"""Shakespeare as a picture: accuracy by round and by time, from benchmarks/results."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

from benchmarks.paper.neural_table import RESULTS, title_of
from fedcore.report.plots import COLOURS

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "shakespeare.png"
STRATEGIES = ("fedavg", "fedavg-ds", "fedprox", "fedcore")  # coloured in this order
SOLID, DASHED, DOTTED = "-", "--", ":"
DRAWN = {
    "avg": SOLID,
    "dropping": SOLID,
    "prox": SOLID,
    "core": SOLID,
    "prox-catch-up": DASHED,
    "core-catch-up": DASHED,
    "few-epochs-catch-up": DOTTED,
}


def curves() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Title, line style and result of every run that is drawn."""
    content = json.loads((RESULTS / "shakespeare.json").read_text())
    drawn = []
    for job, style in DRAWN.items():
        for result in content["results"].get(job, []):
            title = title_of(content["jobs"][job], result["strategy"])
            line = {"linestyle": style, "color": COLOURS[STRATEGIES.index(result["strategy"])]}
            drawn.append((title, line, result))
    return drawn


def draw(path: Path = PICTURE) -> Path:
    """Write the picture; time is counted in deadlines, and its axis is logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (by_round, by_time) = pyplot.subplots(1, 2, figsize=(11, 5), sharey=True)
    for title, line, result in curves():
        accuracies = [100 * value for value in result["test_accuracies"]]
        by_round.plot(range(1, len(accuracies) + 1), accuracies, label=title, **line)
        by_time.plot(list(accumulate(result["round_times"])), accuracies, **line)
    by_time.set_xscale("log")
    by_round.set_xlabel("Round")
    by_time.set_xlabel("Time in deadlines (log)")
    by_round.set_ylabel("Test accuracy, %")
    for axes in (by_round, by_time):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.legend(loc="lower center", ncols=2, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.18, 1, 1))
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return path
