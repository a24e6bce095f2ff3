"""The paper's Table 2 from pieces of ``fedcore reproduce``, as Markdown and as a picture.

    python -m benchmarks.paper.table2 DIR [DIR ...]    # condense pieces that are done

writes ``benchmarks/results/table2.json``: of every piece its figures, who made it, and of networks
the curves. Pieces that the file has and no DIR holds stay. ``make results`` does the rest.
"""

from __future__ import annotations

import json
import statistics
import sys
import textwrap
from itertools import accumulate
from pathlib import Path
from typing import Any

from fedcore.cli.table2 import BENCHMARKS, STRATEGIES
from fedcore.report import paper
from fedcore.report.plots import COLOURS

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "table2.json"
STEPS = ROOT / "benchmarks" / "results" / "table2-steps.json"
RECURRENCE = ROOT / "benchmarks" / "results" / "recurrence-cuda.json"
PICTURE = ROOT / "docs" / "images" / "mnist.png"
TITLES = {"fedavg": "FedAvg", "fedavg-ds": "FedAvg-DS", "fedprox": "FedProx", "fedcore": "FedCore"}
TITLES["tempo"] = "Tempo"
LEVELS = (10, 30)
WAYS = ("paper", "authors-code", "authors-code-chained", "best")
FIGURES = (
    *("rounds", "final_test_accuracy", "final_train_loss", "mean_round_time", "max_round_time"),
    *("mean_test_accuracy_from_round_10", "mean_train_accuracy_from_round_10"),
    *("deadline_misses", "wall_seconds"),
)
Piece = dict[str, Any]


def key_of(piece: Piece) -> tuple[Any, ...]:
    """Its place in the order of pieces."""
    places = WAYS.index(piece["way"]), BENCHMARKS.index(piece["benchmark"]), piece["seed"]
    return (*places, [*TITLES].index(piece["strategy"]), piece["stragglers"])


def condensed(folder: Path, out: Path) -> Piece:
    """One finished piece: what ``reproduce`` wrote, without the clients."""
    (result,) = json.loads((folder / "summary.json").read_text("utf-8"))["results"]
    way = folder.relative_to(out).parts[0]
    named = {name: result[name] for name in ("benchmark", "stragglers", "strategy", "seed")}
    figures = {name: result[name] for name in FIGURES}
    lines = (folder / "provenance.jsonl").read_text("utf-8").splitlines()
    piece = {"way": way, **named, **figures, "made": [json.loads(line) for line in lines]}
    if not result["benchmark"].startswith("synthetic"):
        rows = [json.loads(line) for line in (folder / "rounds.jsonl").open(encoding="utf-8")]
        for name in ("test_accuracy", "train_loss", "round_time"):
            piece[name] = [round(row[name], 4) for row in rows]
    return piece


def condense(folders: list[Path]) -> None:
    """Write the file anew with what is done in ``folders``."""
    before = json.loads(RESULT.read_text("utf-8"))["pieces"] if RESULT.exists() else []
    known = {key_of(piece): piece for piece in before}
    for out in folders:
        for path in sorted(out.glob("*/*/seed-*/*/*/summary.json")):
            piece = condensed(path.parent, out)
            known[key_of(piece)] = piece
    lines = ",\n".join("  " + json.dumps(known[key]) for key in sorted(known))
    head = '{\n "command": "fedcore reproduce", "pieces": [\n'
    RESULT.write_text(f"{head}{lines}\n ]\n}}\n", encoding="utf-8")


def pieces(**wanted: Any) -> list[Piece]:
    """Those that have such a way, benchmark, strategy..."""
    every = json.loads(RESULT.read_text("utf-8"))["pieces"]
    return [one for one in every if all(one[name] == value for name, value in wanted.items())]


def middle(found: list[Piece], name: str, scale: float, digits: int) -> str:
    """Median over seeds, with the range where there are several."""
    if not found:
        return "-"
    values = [scale * one[name] for one in found]
    texts = [f"{v:.{digits}f}" for v in (statistics.median(values), min(values), max(values))]
    return texts[0] if texts[1] == texts[2] else f"{texts[0]} ({texts[1]}-{texts[2]})"


def statistic(name: str, scale: float, digits: int, printed: int | None) -> str:
    """A table of one figure: strategies and sources down, benchmarks and levels across."""
    known = paper.benchmarks()
    columns = [(benchmark, level) for benchmark in BENCHMARKS for level in LEVELS]
    titles = [f"{known[b]['title']}, {level} %" for b, level in columns]
    lines = [f"| strategy | source | {' | '.join(titles)} |", "| --- " * (2 + len(titles)) + "|"]
    for strategy, title in TITLES.items():
        if printed is not None and strategy in STRATEGIES:
            theirs = (known[b]["table_2"][strategy][str(level)][printed] for b, level in columns)
            cells = " | ".join(f"{value:.{digits}f}" for value in theirs)
            lines.append(f"| {title} | the paper | {cells} |")
        for way in WAYS:
            named = {"way": way, "strategy": strategy}
            if pieces(**named):
                found = (
                    middle(
                        pieces(**named, benchmark=b, stragglers=level),
                        name.format(known[b]["split"]),
                        scale,
                        digits,
                    )
                    for b, level in columns
                )
                lines.append(f"| {title} | `{way}` | {' | '.join(found)} |")
    return "\n".join(lines)


def shorter(benchmark: str, way: str, level: int) -> float | None:
    """By how many times FedCore's rounds are shorter than FedAvg's, the median over seeds."""
    named = {"benchmark": benchmark, "way": way, "stragglers": level}
    two = [{p["seed"]: p["mean_round_time"] for p in pieces(**named, strategy=s)} for s in TWO]
    ratios = [two[0][seed] / two[1][seed] for seed in two[0] if seed in two[1]]
    return statistics.median(ratios) if ratios else None


TWO = ("fedavg", "fedcore")


def walls(way: str) -> str:
    """Wall seconds of one seed's pieces, by benchmark."""
    told = []
    for benchmark in BENCHMARKS:
        seeds = sorted({piece["seed"] for piece in pieces(way=way, benchmark=benchmark)})
        first = pieces(way=way, benchmark=benchmark, seed=seeds[0]) if seeds else []
        if first:
            seconds = sum(piece["wall_seconds"] for piece in first)
            device = first[0]["made"][-1]["device"]
            count = f"{len(first)} pieces"
            told.append(f"{paper.title_of(benchmark)} {seconds:,.0f} s ({count}, {device})")
    return "; ".join(told)


def without_fedavg(way: str) -> list[str]:
    """Benchmarks of which pieces are done, and FedAvg's is not."""
    there = {piece["benchmark"] for piece in pieces(way=way, strategy="fedavg")}
    return [b for b in BENCHMARKS if pieces(way=way, benchmark=b) and b not in there]


def floor() -> str:
    """What all pieces need at the least, by their counted steps."""
    counted = json.loads(STEPS.read_text("utf-8"))["pieces"]
    rows = [[one for one in counted if one["benchmark"] == b] for b in ("mnist", "shakespeare")]
    chains = [sum(one["one after another"] for one in some) for some in rows]
    work = [sum(one["client-steps"] for one in some) for some in rows]
    step = json.loads(RECURRENCE.read_text("utf-8"))["rows"][0]["clusters step ms"]
    return (
        f"By count (`python -m benchmarks.paper.steps`) the seven trainings of MNIST take "
        f"{work[0] / 1e6:.1f} million client-steps, {chains[0] / 1e6:.1f} million of them one "
        f"after another; those of Shakespeare {work[1] / 1e6:.1f} and {chains[1] / 1e6:.1f} "
        f"million, since the text draws roles of up to 41,528 windows often. A step of one "
        f"client's LSTM takes {step:.2f} ms ([performance.md](performance.md)), so Shakespeare by "
        f"the text takes {1e-3 * step * chains[1] / 60:.0f} minutes of one GPU at the least, where "
        f"30 were wanted for all of Table 2."
    )


def as_published(benchmark: str, level: int, strategy: str = "fedcore") -> Piece | None:
    """The first seed's piece by the authors' code, with their first round where that was run."""
    for way in ("authors-code-chained", "authors-code"):
        of = {"way": way, "benchmark": benchmark, "stragglers": level, "strategy": strategy}
        if found := sorted(pieces(**of), key=key_of):
            return found[0]
    return None


def statistic_of(piece: Piece) -> float:
    """The paper's: in percent, of Synthetic on training data."""
    data = "train" if piece["benchmark"].startswith("synthetic") else "test"
    return float(100 * piece[f"mean_{data}_accuracy_from_round_10"])


def nearness() -> str:
    """FedCore beside the paper's in all ten columns, and the times that are not the paper's."""
    known, columns, apart = paper.benchmarks(), [], []
    for benchmark in BENCHMARKS:
        title, theirs = known[benchmark]["title"], known[benchmark]["table_2"]
        for level in LEVELS:
            if one := as_published(benchmark, level):
                mark = "" if one["way"].endswith("chained") else ", not chained"
                ours, printed = statistic_of(one), theirs["fedcore"][str(level)][0]
                columns.append(f"{title} at {level} % {ours:.1f} ({printed}{mark})")
            for strategy in STRATEGIES:
                found, time = (
                    as_published(benchmark, level, strategy),
                    theirs[strategy][str(level)][1],
                )
                if found and abs(found["mean_round_time"] / time - 1) > CLOSE:
                    own = f"{found['mean_round_time']:.2f} ({time})"
                    apart.append(f"{TITLES[strategy]} on {title} at {level} % {own}")
    return told(
        f"**Beside the paper.** FedCore by `authors-code-chained`, the first seed, the paper's "
        f"figure in brackets: {'; '.join(columns)}. Mean rounds, by "
        f"`authors-code` where that is all there is, that are more than "
        f"{100 * CLOSE:.0f} % from the paper's: {'; '.join(apart)}. They go by which images and "
        f"which roles the clients have, and these were drawn without a seed."
    )


CLOSE = 0.05  # of a time


def section() -> str:
    """What docs/results.md says of all pieces."""
    done = pieces()
    seeds = {b: len({p["seed"] for p in pieces(benchmark=b, way="paper")}) for b in BENCHMARKS}
    known = paper.benchmarks()
    ratios = []
    for way in ("paper", "authors-code"):
        for benchmark in BENCHMARKS:
            found = [shorter(benchmark, way, level) for level in LEVELS]
            if all(found):
                values = " and ".join(f"{value:.1f}" for value in found if value)
                ratios.append(f"{known[benchmark]['title']} by `{way}` {values}")
    theirs = known["mnist"]["table_2"]
    printed = [theirs["fedavg"][str(s)][1] / theirs["fedcore"][str(s)][1] for s in LEVELS]
    counted = ", ".join(f"{known[b]['title']} {n}" for b, n in seeds.items() if n)
    about = told(
        f"`fedcore reproduce`, {len(done)} pieces; a dash is one that was not run yet. Seeds: "
        f"{counted}; the median, and the range in brackets. `best` is our own strategy with the "
        f"options of `paper`; `authors-code-chained` repeats the defect of their first round. The "
        f"paper's figure is the mean over rounds >= 10, of Synthetic on training data. Columns of "
        f"Synthetic are ours: the paper has (0, 0) and (1, 1) exchanged "
        f"([deviations.md](deviations.md))."
    )
    alone = [known[b]["title"] for b in without_fedavg("paper")]
    if alone:
        about += told(f" FedAvg by the text is not there yet of {', '.join(alone)}.")
    eight = told(
        f"**The 8 times of the abstract.** FedAvg's mean round over FedCore's at 10 and 30 %: in "
        f"the paper, on MNIST, {printed[0]:.1f} and {printed[1]:.1f}; here {'; '.join(ratios)}. By "
        f"the text, which draws large clients more often and gives them no faster devices, rounds "
        f"of FedAvg are far longer than the paper's."
    )
    spent = told(
        f"Wall seconds of the first seed's pieces, preset `paper`: {walls('paper')}. Pieces of "
        f"MNIST ran ten at a time on one GPU, those of Shakespeare five, so each took longer than "
        f"alone. "
        f"{floor()}"
    )
    return f"""{about}

{statistic("mean_{}_accuracy_from_round_10", 100, 1, 0)}

Final accuracy on held-out data:

{statistic("final_test_accuracy", 100, 1, None)}

Mean round, in deadlines:

{statistic("mean_round_time", 1, 2, 1)}

{nearness()}

{eight}

{spent}

![MNIST: accuracy by round and by time](images/mnist.png)

30 % of stragglers, preset `paper`, seed 0; faint lines are the paper's own curves."""


def told(text: str) -> str:
    return textwrap.fill(text, 100, break_on_hyphens=False, break_long_words=False)


def readme() -> str:
    """The README's table of MNIST."""
    lines = ["| stragglers | strategy | final | mean from round 10 | the paper's | mean round |"]
    lines.append("| --- " * 6 + "|")
    printed = paper.benchmarks()["mnist"]["table_2"]
    for level in LEVELS:
        for strategy, title in TITLES.items():
            way = "best" if strategy == "tempo" else "paper"
            found = pieces(way=way, benchmark="mnist", strategy=strategy, stragglers=level)
            theirs = printed.get(strategy, {}).get(str(level), ["-"])[0]
            cells = [f"{level} %", f"**{title}**" if strategy == "fedcore" else title]
            cells += [middle(found, "final_test_accuracy", 100, 1)]
            cells += [middle(found, "mean_test_accuracy_from_round_10", 100, 1), str(theirs)]
            lines.append(f"| {' | '.join([*cells, middle(found, 'mean_round_time', 1, 2)])} |")
    return "\n".join(lines)


def draw(path: Path = PICTURE, level: int = 30) -> Path:
    """MNIST: accuracy by round, the paper's curves behind, and by time on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (by_round, by_time) = pyplot.subplots(1, 2, figsize=(11, 4.6), sharey=True)
    theirs = paper.curves("mnist", level)
    for colour, (strategy, title) in zip(COLOURS, TITLES.items(), strict=False):
        way = "best" if strategy == "tempo" else "paper"
        for one in pieces(way=way, benchmark="mnist", strategy=strategy, stragglers=level, seed=0):
            accuracies = [100 * value for value in one["test_accuracy"]]
            by_round.plot(range(1, 1 + len(accuracies)), accuracies, color=colour, label=title)
            by_time.plot(list(accumulate(one["round_time"])), accuracies, color=colour)
        if strategy in theirs:
            rounds, values = theirs[strategy]["test_accuracy"]
            shown = [100 * v if max(values) <= 1 else v for v in values]
            by_round.plot(rounds, shown, color=colour, alpha=0.3, linewidth=1)
    by_time.set_xscale("log")
    by_round.set_xlabel("Round (faint: the paper's curves)")
    by_time.set_xlabel("Time in deadlines (log)")
    by_round.set_ylabel("Test accuracy, %")
    by_round.set_ylim(40, 100)
    for axes in (by_round, by_time):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    by_round.legend(frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return path


if __name__ == "__main__":
    condense([Path(name) for name in sys.argv[1:]])
