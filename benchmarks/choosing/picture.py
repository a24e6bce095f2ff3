"""Differences to a draw per round as a picture: a row per arm, a panel per condition."""

from __future__ import annotations

from pathlib import Path

from benchmarks.choosing.arms import ARMS
from benchmarks.choosing.conditions import CONDITIONS
from benchmarks.choosing.figures import BASE, Study, difference, only
from fedcore.report.plots import COLOURS

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "choosing.png"


def draw(study: Study, arms: list[str], path: Path = PICTURE) -> Path:
    """The mean over all settings of a condition in which an arm fits, with its interval."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    conditions = [name for name in CONDITIONS if any(r["condition"] == name for r in study["rows"])]
    shown = [arm for arm in arms if arm != BASE]
    figure, panels = pyplot.subplots(
        1, len(conditions), figsize=(2.6 * len(conditions) + 2, 0.36 * len(shown) + 1.4),
        sharey=True, squeeze=False,
    )  # fmt: skip
    for condition, axes in zip(conditions, panels[0], strict=True):
        for place, arm in enumerate(shown):
            one = difference(study, arm, where=only(condition=condition))
            if one is not None:
                colour = COLOURS[0] if one.sure else "#999999"
                axes.errorbar(one.mean, -place, xerr=one.half, fmt="o", color=colour, capsize=2)
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_title(CONDITIONS[condition][0], fontsize=10)
        axes.set_xlabel("points")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_yticks([-place for place in range(len(shown))])
    panels[0][0].set_yticklabels([ARMS[arm].title for arm in shown])
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return path
