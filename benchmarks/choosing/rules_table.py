"""How far a merge goes: the section of docs/choosing.md on the rules of Tempo's merge."""

from __future__ import annotations

import json
import statistics
import textwrap
from typing import Any

from benchmarks.choosing.rules import RESULT, RULES
from benchmarks.paper import table2
from benchmarks.tables import table
from fedcore.report import paper

Row = dict[str, Any]
Case = tuple[str, float]  # benchmark, stragglers
FIGURES = ("final", "steady")
SETTING = ("benchmark", "stragglers", "seed")
OTHERS = {"fedavg": "FedAvg, no deadline", "fedcore": "FedCore"}  # from Table 2
SYNTHETIC = ("synthetic-0-0", "synthetic-0.5-0.5", "synthetic-1-1")


def read() -> list[Row]:
    """What is committed, and from Table 2 the paper's methods, and Tempo on networks."""
    rows: list[Row] = json.loads(RESULT.read_text("utf-8"))["rows"]
    seeds = {tuple(row[name] for name in SETTING) for row in rows}
    pieces = [(name, one) for name in OTHERS for one in table2.pieces(way="paper", strategy=name)]
    ours = table2.pieces(way="best", strategy="tempo")
    pieces += [("turning", one) for one in ours if one["benchmark"] not in SYNTHETIC]
    for name, one in pieces:
        key = {known: one[known] for known in SETTING}
        if tuple(key.values()) in seeds:
            means = one["final_test_accuracy"], one["mean_test_accuracy_from_round_10"]
            rows.append({**key, "rule": name, **dict(zip(FIGURES, means, strict=True))})
    return rows


def values(rows: list[Row], rule: str, case: Case, figure: str) -> list[float]:
    """In percent, of every seed."""
    wanted = (rule, *case)
    found = (row for row in rows if (row["rule"], row["benchmark"], row["stragglers"]) == wanted)
    return [100 * row[figure] for row in found]


def both(rows: list[Row], rule: str, case: Case) -> str:
    """Final accuracy and that from round 10 on, medians over seeds."""
    found = [values(rows, rule, case, figure) for figure in FIGURES]
    return " / ".join(f"{statistics.median(one):.1f}" for one in found) if found[0] else "-"


def on_synthetic(rows: list[Row], rule: str) -> str:
    """Final accuracies on the three, with 30 % of stragglers."""
    each = (statistics.median(values(rows, rule, (name, 30.0), "final")) for name in SYNTHETIC)
    return ", ".join(f"{value:.1f}" for value in each)


def longest(rows: list[Row], case: Case) -> float:
    """γ under turning, the largest of all rounds and seeds."""
    wanted = ("turning", *case)
    found = (row for row in rows if (row["rule"], row["benchmark"], row["stragglers"]) == wanted)
    return max(float(row["longest stretch"]) for row in found)


def told(rows: list[Row]) -> dict[str, str]:
    """Claims, and the numbers that they stand on; tests/benchmarks/test_choosing.py holds both."""
    mnist, short, text = ("mnist", 30.0), ("mnist", 97.0), ("shakespeare", 30.0)
    easy, middle, hard = (("synthetic-1-1", level) for level in (10.0, 30.0, 90.0))
    furthest = [longest(rows, case) for case in (easy, middle)]
    least = {name: min(values(rows, "turning", (name, 30.0), "final")) for name in SYNTHETIC}
    lowest = ", ".join(f"{value:.1f}" for value in least.values())
    return {
        "A fixed root overshoots on MNIST.": (
            f"Tempo's earlier rule ends at {both(rows, 'root', mnist)}, FedAvg at "
            f"{both(rows, 'fedavg', mnist)} and FedCore at {both(rows, 'fedcore', mnist)}: its "
            "merges turned back on one another ([ADR 18](adr/0018-tempo.md))."
        ),
        "A stretch that is found does not, and keeps the gain on Synthetic.": (
            f"Turning ends at {both(rows, 'turning', mnist)} on MNIST, and on Synthetic at "
            f"{on_synthetic(rows, 'turning')} (worst seeds {lowest}), where the root has "
            f"{on_synthetic(rows, 'root')} and answers as they are "
            f"{on_synthetic(rows, 'plain')}."
        ),
        "Not everywhere ahead.": (
            "On Synthetic(1, 1) with 10 % of stragglers turning has "
            f"{both(rows, 'turning', easy)}, the root {both(rows, 'root', easy)}: few steps are "
            f"missing, and γ is at most {furthest[0]:.1f}, where at 30 % it comes to "
            f"{furthest[1]:.1f}. On Shakespeare, 30 rounds long, turning has "
            f"{both(rows, 'turning', text)}, from 1 on {both(rows, 'turning-from-one', text)}."
        ),
        "Where γ begins.": (
            "It doubles in a round at the most, so from 1 on it is late where nearly all steps "
            f"are missing: {both(rows, 'turning-from-one', hard)} with 90 % of stragglers, the "
            f"root {both(rows, 'root', hard)}. Beginning as far as the root goes, with the mean "
            f"√(mean ā / a), turning has {both(rows, 'turning', hard)}, and at 30 % "
            f"{both(rows, 'turning', middle)} in place of {both(rows, 'turning-from-one', middle)}."
            f" On MNIST, one seed, it has {both(rows, 'turning', mnist)}, from 1 on "
            f"{both(rows, 'turning-from-one', mnist)}: nothing is gained there. With 97 % it "
            f"begins with {longest(rows, short):.1f} and falls, since these merges turn back: "
            f"{both(rows, 'turning', short)} after 60 rounds, from 1 on "
            f"{both(rows, 'turning-from-one', short)}. That is too far for this network. Beginning "
            f"as far as the first answers agree, it has {both(rows, 'turning-agreed', short)} "
            f"there, and on Synthetic(1, 1) {both(rows, 'turning-agreed', middle)} and "
            f"{both(rows, 'turning-agreed', hard)}."
        ),
        "1 / √a is the middle that holds.": (
            f"With γ from 1 on, answers as they are have {on_synthetic(rows, 'turning-plain')}, "
            f"and {both(rows, 'turning-plain', easy)} with 10 % of stragglers on Synthetic(1, 1), "
            "where weights have to bring what γ cannot. Weights 1 / a have "
            f"{on_synthetic(rows, 'turning-nova')}, and {both(rows, 'turning-nova', easy)} there: "
            f"they end higher than 1 / √a, {on_synthetic(rows, 'turning-from-one')} and "
            f"{both(rows, 'turning-from-one', easy)}, and lose in the mean. On MNIST "
            f"answers as they are have {both(rows, 'turning-plain', mnist)}, more by the mean than "
            "1 / √a; 1 / a was not run there. With 97 % of stragglers there they have "
            f"{both(rows, 'turning-plain', short)}, and {both(rows, 'turning-plain-agreed', short)}"
            " with γ beginning as far as the first answers agree: most of all rules. On Synthetic "
            f"at 30 % the latter has {on_synthetic(rows, 'turning-plain-agreed')}. Weights a^-¼ "
            f"lie between in both: {both(rows, 'turning-quarter-agreed', short)}, and "
            f"{on_synthetic(rows, 'turning-quarter-agreed')}."
        ),
        "What lost: √(own ā / a), and an exponent that is measured.": (
            f"{on_synthetic(rows, 'own-root')} and {on_synthetic(rows, 'measured')}, next to "
            "nothing above answers as they are. The first leaves large clients as heavy as they "
            "were, and the gain is of small ones counting as much as they. The second fits how "
            "lengths of answers grow with their steps; there they do not, so the exponent falls "
            f"to 0. With 90 % of stragglers they have {both(rows, 'own-root', hard)} and "
            f"{both(rows, 'measured', hard)}, below turning too."
        ),
        "Longer local steps gain most on MNIST, and are not taken.": (
            f"{both(rows, 'turning-local', mnist)} there, but {on_synthetic(rows, 'turning-local')}"
            " on Synthetic. A slow client would step with up to 16 times the step size that was "
            "asked for, and nothing bounds what that does to its own training: not stable by "
            "construction, as merges within their longest answer are."
        ),
        "Below 1 nothing is gained.": (
            f"A stretch that may also shrink merges has {on_synthetic(rows, 'turning-free')}, "
            f"where the same from 1 up has {on_synthetic(rows, 'turning-from-one')}."
        ),
        "One constant is left.": (
            "The base of 2^cos is a fixed gain: a stretch doubles or halves in a round at the most."
        ),
    }


def section() -> str:
    """The part of the page, if there are results."""
    if not RESULT.exists():
        return ""
    rows = read()
    cases = sorted({(row["benchmark"], row["stragglers"]) for row in rows}, key=place)
    names = [n for n in {**OTHERS, **RULES} if any(row["rule"] == n for row in rows)]
    shown = {name: rule.title.replace("|", "\\|") for name, rule in RULES.items()}
    titles = shown | OTHERS
    head = ["rule", *(f"{paper.title_of(name)}, {level:g} %" for name, level in cases)]
    cells = [[titles[name], *(both(rows, name, case) for case in cases)] for name in names]
    about = (
        "The merge of Tempo's plans by several rules, at the paper's own step sizes "
        "(`python -m benchmarks.choosing.rules`). Of a client, a are the steps taken and ā those "
        "of E epochs on everything. Answers are averaged by weights to V, and the model moves by "
        "γ V, no further than the longest answer. Without turning, γ is the mean weight; with it, "
        "γ ← γ 2^cos(V, last V), from 1 up to mean ā / mean a: under Tempo it begins with the mean "
        "√(mean ā / a), under all other rules that turn with 1. Cells are final accuracy / mean "
        "from round 10 on, in percent, medians of three seeds on Synthetic and one seed on "
        "networks, of which not every rule was run. 100 rounds, Shakespeare 30, MNIST with "
        "97 % 60. FedAvg, FedCore and, on networks, Tempo are those of [Table 2](results.md)."
    )
    bullets = [
        textwrap.fill(f"- **{claim}** {why}", 100, subsequent_indent="  ", break_on_hyphens=False)
        for claim, why in told(rows).items()
    ]
    parts = ["## How far a merge goes", textwrap.fill(about, 100, break_on_hyphens=False)]
    return "\n\n".join([*parts, table(head, cells), "\n".join(bullets)]) + "\n"


def place(case: Case) -> tuple[bool, Case]:
    """Synthetic first."""
    return not case[0].startswith("synthetic"), case
