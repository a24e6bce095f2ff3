"""docs/deadlines.md and its picture from the committed results: ``make study-deadlines``.

Numbers in its sentences are read from the results too. A test fails when the page is stale.
"""

from __future__ import annotations

import json
import math
import statistics
import textwrap
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.deadlines.settings import FIXED, PARTS, SENDS, STRATEGIES
from benchmarks.tables import table
from fedcore import plugins

ROOT = Path(__file__).parents[2]
PAGE, RESULTS = ROOT / "docs" / "deadlines.md", ROOT / "benchmarks" / "results"
PICTURE = ROOT / "docs" / "images" / "deadlines.png"
Study = dict[str, Any]
TITLES = {"synthetic-1-1": "Synthetic(1, 1)", "mnist": "MNIST"}
NAMES = {"tempo": "Tempo", "fedcore": "FedCore"}
SLOWEST = 2.0  # times the best in the worst case that is wanted
MEDIAN = 1.3  # in the median
OF_THE_PERCENTILE = 0.2  # of its time, where links are fastest


def read() -> list[Study]:
    """The committed results."""
    parts = product(PARTS, STRATEGIES)
    paths = (RESULTS / f"deadlines-{benchmark}-{name}.json" for benchmark, name in parts)
    return [json.loads(path.read_text("utf-8")) for path in paths if path.exists()]


def times(study: Study, send: float, arm: str) -> dict[int, float]:
    """Time to the target by seed; infinity where it was not reached."""
    found = (run for run in study["runs"] if run["send"] == send and run["arm"] == arm)
    return {run["seed"]: run["reached"] or math.inf for run in found}


def best_fixed(study: Study, send: float) -> dict[int, float]:
    """The least time of any fixed deadline, by seed."""
    every = [times(study, send, arm) for arm in FIXED]
    seeds = set().union(*every)
    return {seed: min(one.get(seed, math.inf) for one in every) for seed in sorted(seeds)}


def ratios(study: Study, send: float, arm: str = "auto") -> dict[int, float]:
    """How many times the best fixed deadline's time an arm needs, by seed."""
    best = best_fixed(study, send)
    return {seed: time / best[seed] for seed, time in times(study, send, arm).items()}


def of_percentile(study: Study, send: float) -> dict[int, float]:
    """Which share of the time of the paper's deadline, send + τ30, ours needs."""
    paper = times(study, send, "1")
    return {seed: time / paper[seed] for seed, time in times(study, send, "auto").items()}


def title(study: Study) -> str:
    return f"{TITLES[study['benchmark']]}, {NAMES[study['strategy']['name']]}"


def number(value: float) -> str:
    return "not reached" if math.isinf(value) else f"{value:.3g}"


def cell(values: Sequence[float]) -> str:
    if not values:
        return "-"
    middle = number(statistics.median(values))
    return f"{middle} ({number(min(values))}-{number(max(values))})" if len(values) > 1 else middle


def arm_title(arm: str) -> str:
    if arm in FIXED:
        share = FIXED[arm]
        return f"send + τ30 x {share:g}" if share >= 1 else f"send + τ30 / {1 / share:g}"
    return f"**`{arm}`**" if arm == "auto" else f"`{arm}`"


def times_table(study: Study) -> str:
    rows = []
    middles = {
        send: {
            arm: statistics.median(v) for arm in FIXED if (v := times(study, send, arm).values())
        }
        for send in SENDS
    }
    for arm in PARTS[study["benchmark"]].arms:
        cells = []
        for send in SENDS:
            text = cell(list(times(study, send, arm).values()))
            least = min(middles[send].values(), default=math.inf)
            best = arm in FIXED and middles[send].get(arm) == least < math.inf
            cells.append(f"**{text}**" if best else text)
        rows.append([arm_title(arm), *cells])
    return table(["deadline", *(f"sending takes {send:g} τ30" for send in SENDS)], rows)


def verdict(studies: Sequence[Study]) -> str:
    """What was wanted of ``auto``, and what came out."""
    every = [r for study in studies for send in SENDS for r in ratios(study, send).values()]
    fast = [r for study in studies for r in of_percentile(study, SENDS[0]).values()]
    if not every:
        return "Nothing was run yet."
    middle, worst = statistics.median(every), max(every)
    text = (
        f"Over {len(every)} runs, of a fleet, a link and a strategy each, `auto` needs "
        f"{number(middle)} times the best fixed deadline's time in the median (wanted: at most "
        f"{MEDIAN}) and {number(worst)} "
        f"times in the worst case (wanted: at most {SLOWEST:g}). Where links are fastest it needs "
        f"{number(statistics.median(fast))} of the percentile's time in the median and "
        f"{number(max(fast))} in the worst case (wanted: at most {OF_THE_PERCENTILE}). Above what "
        f"is wanted: {'; '.join(misses(studies)) or 'none'}."
    )
    return "\n".join(textwrap.wrap(text, 110))


def misses(studies: Sequence[Study]) -> list[str]:
    """Where ``auto`` needs more than is wanted: of the best fixed deadline's time, of a whole."""
    found = []
    for study in studies:
        for send in SENDS:
            where = f"{title(study)}, send {send:g}, seed"
            for seed, ratio in sorted(ratios(study, send).items()):
                if ratio > SLOWEST:
                    found.append(f"{where} {seed}: {number(ratio)} times")
            for seed, share in sorted(of_percentile(study, send).items()):
                if send == SENDS[0] and share > OF_THE_PERCENTILE:
                    found.append(f"{where} {seed}: {number(share)} of the percentile's time")
    return found


def ratio_table(studies: Sequence[Study]) -> str:
    rows = []
    for study in studies:
        for send in SENDS:
            found = ratios(study, send)
            share = list(of_percentile(study, send).values())
            chosen = [
                statistics.median(run["deadlines"])
                for run in study["runs"]
                if run["send"] == send and run["arm"] == "auto"
            ]
            rows.append(
                [
                    title(study),
                    f"{send:g}",
                    ", ".join(number(value) for _, value in sorted(found.items())),
                    cell(share),
                    cell(chosen),
                ]
            )
    head = ["benchmark, strategy", "send", "`auto` / best fixed, by seed", "`auto` / (send + τ30)"]
    return table([*head, "median deadline of `auto`"], rows)


def controllers_table() -> str:
    rows = [[f"`{name}`", plugins.summary("deadline", name)] for name in plugins.names("deadline")]
    return table(["name", "rule"], rows)


def page(studies: Sequence[Study]) -> str:
    parts = [
        "# Which deadline?",
        "<!-- Written by python -m benchmarks.deadlines.page from benchmarks/results. -->",
        INTRODUCTION,
        "## Who may set it",
        controllers_table(),
        CONTROLLERS_TEXT,
        "## How good `auto` is",
        SETTING,
        verdict(studies),
        "![Time to the target by deadline](images/deadlines.png)",
        ratio_table(studies),
    ]
    for study in studies:
        parts += [f"## {title(study)}: time to the target in τ30", times_table(study)]
    return "\n\n".join(parts) + "\n"


INTRODUCTION = """\
A round ends at its deadline, and how long that is decides more than the method does. The paper
takes a percentile: the deadline that makes 30 % of the clients stragglers, τ30. Shorter ones are
far better, since local work brings less and less, and merges bring it together again; what limits
them is that every round sends the model. `--deadline auto` finds the balance from what the server
sees: `fedcore compare --deadline auto`, `fedcore.simulate(..., deadline="auto")`,
`FedCore(deadline="auto")` on real machines."""
CONTROLLERS_TEXT = """\
Options of their own are given by `--method KEY=VALUE`, such as `--deadline mean --method
times=2`; a controller may be a `.py` file of your own with `build(*, option=default) ->
Controller` ([server/controller.py](../src/fedcore/server/controller.py)). Each is asked before
every round with what was seen so far: samples, speeds and transfers of clients that have
answered, losses that came with the answers, and the deadlines before. Nobody knows the speed of a
client that has not answered, nor the test accuracy. The first round is a probe: the shortest
time, doubled until somebody who was drawn can do anything. From then on deadlines stay between
1.1 times the median transfer and the longest whole job that was seen, and where everybody drawn
would sit out, the deadline is doubled until somebody does not. `auto` and `percentile` go half of
the way to a new deadline a round, in logarithms. Each round's deadline and its reason stand in
`rounds.jsonl`, and every change in the log. The derivation of `auto` is [ADR
16](adr/0016-the-deadline-that-finds-itself.md).

Times of such a run are told in deadlines at `--stragglers` (30 unless given), as is
`--time-budget`, so that runs whose deadlines move can be compared with one another and with those
whose do not. In a deployment times are seconds, those drawn are whoever is online, and nothing is
doubled ([deployment.md](deployment.md))."""
SETTING = """\
Equal links: fetching the model and sending it back takes 0.01, 0.1 or 1 times τ30 together, τ30
being that of compute alone. Fixed deadlines are the sending plus τ30 times 1/32 to 4. The target
is 95 % of FedAvg's accuracy after 100 rounds without a deadline, on the same fleet and seed;
times are until the first evaluation at or above it. Arms train with our own strategy, `tempo`, or
with `fedcore --coreset-epochs 1 --catch-up 3`. The one constant of `auto` was set on other seeds,
with the latter. Fixed deadlines are trained for over the fastest link: over the others clients do
the same work, and every round is longer by the difference. On MNIST, run on a CPU, the target of
all seeds is that of seed 0, whose FedAvg stands in [Table 2](results.md), since such a run takes
hours of a core; 2 and 4 times τ30 were not run."""


def draw(studies: Sequence[Study], path: Path = PICTURE) -> Path:
    """Time to the target over the deadline, a line for each link; ours as stars."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from fedcore.report.plots import COLOURS

    figure, panels = pyplot.subplots(
        1, len(studies), figsize=(5.5 * len(studies), 4.5), squeeze=False
    )
    for study, axes in zip(studies, panels[0], strict=True):
        for send, colour in zip(SENDS, COLOURS, strict=False):
            points = [
                (share, statistics.median(found))
                for arm, share in FIXED.items()
                if (found := times(study, send, arm).values())
            ]
            axes.plot(*zip(*points, strict=True), "o-", color=colour, label=f"send {send:g} τ30")
            own = [run for run in study["runs"] if run["send"] == send and run["arm"] == "auto"]
            for run in own:
                spent = statistics.median(run["deadlines"]) - send
                reached = run["reached"] or math.nan
                axes.plot([spent], [reached], "*", color=colour, markersize=13, alpha=0.7)
        axes.set(xscale="log", yscale="log", title=title(study))
        axes.set_xlabel("Deadline without the sending, in τ30; stars: auto, its median")
        axes.grid(alpha=0.25)
    panels[0][0].set_ylabel("Time to the target in τ30, median of the seeds")
    panels[0][0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path


def main() -> None:
    studies = read()
    PAGE.write_text(page(studies), encoding="utf-8")
    print(f"written: {PAGE}, {draw(studies)}")


if __name__ == "__main__":
    main()
