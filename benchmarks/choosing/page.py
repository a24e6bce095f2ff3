"""Write docs/choosing.md from the committed results: tables, differences, and what they say."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Any

from benchmarks.choosing import picture, rules_table, steps_table
from benchmarks.choosing.arms import ARMS, FORWARD, LEAST, fits
from benchmarks.choosing.conditions import CONDITIONS
from benchmarks.choosing.figures import (
    BASE,
    SAME_AT_ONE,
    Difference,
    Study,
    accuracies,
    difference,
    only,
    read,
    settings,
    won_and_lost,
)
from benchmarks.choosing.settings import GENTLE, MAIN, PARTS
from benchmarks.tables import table

PAGE = Path(__file__).parents[2] / "docs" / "choosing.md"
CHOSEN = ("medoids", "medoids-unweighted", "medoids-per-class")
CHANCE = 0.2  # an accuracy below which a model of ten digits says nothing of its samples
PER_SEED = ("seeds", "final", "steady")
SCHEDULES = {"constant": "constant steps", "cosine": "decayed steps"}


def told(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 100, subsequent_indent=indent, break_on_hyphens=False)


def verdict(one: Difference | None) -> str:
    """A difference in words."""
    if one is None:
        return "was not run"
    if math.isnan(one.half):
        return f"has {one.mean:+.1f} points in the one pair there is"
    if not one.sure:
        return f"is level ({one} points)"
    return f"is {'ahead' if one.mean > 0 else 'behind'} ({one} points)"


def cell(study: Study, arm: str, setting: tuple[str, str, int, float]) -> str:
    """A difference to the base in bold where the interval leaves zero out; the base as it is."""
    if arm == BASE:
        found = [value for key, value in accuracies(study, arm).items() if key[:-1] == setting]
        return f"{sum(found) / len(found):.1f}" if found else "-"
    if setting[2] == 1 and arm in SAME_AT_ONE:
        return "="
    one = difference(study, arm, where=lambda key: key == setting)
    if one is None:
        fit = fits(ARMS[arm], PARTS[study["part"]].prices, setting[3], setting[2])
        return "no pair" if fit else "does not fit"
    if math.isnan(one.half):
        return f"{one.mean:+.1f}, one pair"
    return f"**{one}**" if one.sure else str(one)


def arms_of(study: Study) -> list[str]:
    there = {row["arm"] for row in study["rows"]}
    return [arm for arm in ARMS if arm in there]


def setting_tables(study: Study) -> str:
    """For every condition and schedule: arms by share and epochs."""
    parts = []
    for condition, (title, _) in CONDITIONS.items():
        for schedule, name in SCHEDULES.items():
            columns = [s for s in settings(study) if s[:2] == (condition, schedule)]
            if columns:
                head = ["", *(f"{100 * s[3]:g} %, E = {s[2]}" for s in columns)]
                rows = [
                    [ARMS[arm].title, *(cell(study, arm, setting) for setting in columns)]
                    for arm in arms_of(study)
                ]
                parts.append(f"**{title.capitalize()}, {name}.**\n\n{table(head, rows)}\n")
    return "\n".join(parts)


def overview(study: Study) -> str:
    """Arms against the base over everything, by condition, and by how many settings it is sure."""
    conditions = [name for name in CONDITIONS if any(s[0] == name for s in settings(study))]
    rows = []
    for arm in arms_of(study):
        if arm == BASE:
            continue
        every = difference(study, arm)
        by = [difference(study, arm, where=only(condition=name)) for name in conditions]
        ahead, behind, count = won_and_lost(study, arm)
        shown = [f"**{one}**" if one and one.sure else str(one) for one in (every, *by)]
        rows.append([ARMS[arm].title, *shown, f"{ahead} / {behind} of {count}"])
    head = ["against random per round", "all", *(CONDITIONS[name][0] for name in conditions)]
    return table([*head, "surely ahead / behind"], rows)


def by_lever(study: Study) -> str:
    """Arms against the base by share and by epochs, over all conditions."""
    shares = sorted({s[3] for s in settings(study)})
    epochs = sorted({s[2] for s in settings(study)})
    rows = []
    for arm in arms_of(study):
        if arm != BASE:
            by = [difference(study, arm, where=only(share=v)) for v in shares]
            by += [difference(study, arm, where=only(epochs=v)) for v in epochs]
            rows.append([ARMS[arm].title, *("-" if one is None else str(one) for one in by)])
    head = [f"{100 * share:g} %" for share in shares] + [f"E = {one}" for one in epochs]
    return table(["against random per round", *head], rows)


def best_of(study: Study, arms: tuple[str, ...]) -> str:
    """The arm with the highest mean difference over the settings that it fits."""
    known = {arm: difference(study, arm) for arm in arms}
    means = {arm: one.mean for arm, one in known.items() if one is not None}
    return max(means, key=lambda arm: means[arm])


def against_a_draw(study: Study, **setting: Any) -> str:
    """Every arm's verdict."""
    rest = {a: difference(study, a, where=only(**setting)) for a in arms_of(study) if a != BASE}
    return "; ".join(f"{ARMS[arm].title} {verdict(one)}" for arm, one in rest.items())


def conclusions(study: Study, mnist: Study | None, gentle: Study | None) -> str:
    """What the numbers say, in sentences made of them."""
    drawn = [arm for arm in MAIN if arm not in (*CHOSEN, BASE)]
    best = best_of(study, CHOSEN)
    free = difference(study, "medoids-kept")
    pairs = [("medoids", "medoids-unweighted"), ("fedcore", "fedcore-drawn")]
    weights, form = (difference(study, *pair) for pair in pairs)
    noise = [
        difference(study, "medoids-kept", where=only(condition=name))
        for name in ("clean", "noise-20", "noise-40", "fivefold", "imbalance")
    ]
    lines = [
        f"**Choosing, on Synthetic.** At its price the best of three k-medoids arms, "
        f"{ARMS[best].title}, {verdict(difference(study, best))} against a draw per round. At no "
        f"price, as of coresets that are chosen once and kept, it {verdict(free)}: "
        + ", ".join(
            f"{CONDITIONS[name][0]} {one}"
            for name, one in zip(CONDITIONS, noise, strict=True)
            if one is not None
        )
        + ".",
        f"**Weights.** k-medoids with cluster weights {verdict(weights)} against the same medoids "
        f"without. After one epoch on everything, as in the paper, choosing the rest "
        f"{verdict(form)} against drawing it.",
        "**Ways to draw**, against a draw per round: "
        + "; ".join(f"{ARMS[arm].title} {verdict(difference(study, arm))}" for arm in drawn)
        + ".",
    ]
    if mnist is not None:
        lines.append(
            "**A network, MNIST**, against a draw per round, where neither broke (below): "
            f"{against_a_draw(mnist)}. After one epoch on everything, choosing the rest "
            f"{verdict(difference(mnist, 'fedcore', 'fedcore-drawn'))} against drawing it."
        )
    if gentle is not None:
        by = [
            f"With {100 * share:g} % of the time, {CONDITIONS[condition][0]}: "
            f"{against_a_draw(gentle, condition=condition, share=share)}."
            for condition, _, _, share in settings(gentle)
        ]
        broke, size = broken(gentle), f"{gentle['learning_rate']:g}"
        about = f"**At the step size of Table 2**, {size}, {broke} of {gentle['runs']} runs broke."
        lines.append(" ".join([about, *by]))
    rival = f"Against it {ARMS[best].title} {verdict(difference(study, best, 'partial'))}"
    if mnist is not None:
        rival += f", on MNIST k-medoids {verdict(difference(mnist, 'medoids', 'partial'))}"
    lines.append(
        "**Our own strategy**, [`tempo`](methods.md), trains as the arm "
        f"`{ARMS['partial'].title}` does: whole epochs, then a draw of what fits. {rival}. "
        "`fedcore` chooses, as the paper has it."
    )
    return "\n".join(told(f"- {line}", "  ") for line in lines)


def better() -> str:
    """What was tried to choose better."""
    study = read("better")
    if study is None:
        return ""
    part = PARTS["better"]
    rivals = (BASE, "random-epochs", "partial", "medoids-kept")
    rows = []
    for arm in arms_of(study):
        if arm not in rivals:
            against = [difference(study, arm, other) for other in rivals]
            shown = [f"**{one}**" if one and one.sure else str(one) for one in against]
            sure = [one for one in against[:3] if one and one.sure and one.mean > 0]
            rows.append([ARMS[arm].title, *shown, "yes" if len(sure) == 3 else "no"])
    head = ["tried", *(f"against {ARMS[other].title}" for other in rivals), "beats every draw"]
    shares = ", ".join(f"{100 * share:g}" for share in part.shares)
    missing = f" {study['missing']} runs are missing." if study["missing"] else ""
    about = told(
        f"Tried on Synthetic(1, 1) with E = {part.epochs[0]}, shares {shares} %, {part.rounds} "
        f"rounds, seeds {part.seeds[0]} to {part.seeds[-1]}, which the study above does not use."
        f"{missing} None is charged for looking at samples or choosing among them, so what they "
        f"gain is an upper bound. What does not beat every draw stays where it is, in "
        f"benchmarks/choosing."
    )
    return f"## Better selection, if there is any\n\n{about}\n\n{table(head, rows)}\n"


def mnist_section(mnist: Study | None) -> str:
    if mnist is None:
        return ""
    about = told(
        f"{mnist['runs']} runs of {mnist['rounds']} rounds, step size {mnist['learning_rate']:g}, "
        f"seeds {', '.join(map(str, mnist['seeds']))}, 100 of 1,000 clients a round; "
        f"{mnist['missing']} more are not run yet. k-medoids go by last-layer gradients of a "
        f"forward pass, which is charged."
    )
    rows = [[ARMS[arm].title, f"{count} of {of}"] for arm, (count, of) in mnist["broke"].items()]
    broke, of = (sum(counts) for counts in zip(*mnist["broke"].values(), strict=True))
    parted = told(
        f"**{broke} of {of} runs broke**: their models ended at chance, below "
        f"{100 * CHANCE:g} %. The step size is the best of most methods in "
        f"[stragglers.md](stragglers.md), on another fleet; here, where even the smallest client "
        f"takes steps of single samples, it is too large for most arms. Pairs are of runs that did "
        f"not break; which arms break most is a result of its own."
    )
    counts = table(["arm", "broke"], rows)
    return f"## MNIST, CNN\n\n{about}\n\n{parted}\n\n{counts}\n\n{setting_tables(mnist)}"


def gentle_section(study: Study | None) -> str:
    if study is None:
        return ""
    about = told(
        f"The same at step size {study['learning_rate']:g}, that of Table 2, with 10 % of the time "
        f"on a CPU, with 30 % on a GPU: "
        f"{study['runs']} runs of {study['rounds']} rounds, of which {broken(study)} broke"
        + (f"; {study['missing']} more are not run yet" if study["missing"] else "")
        + ". Pairs are of one seed each."
    )
    return f"### At the step size of Table 2\n\n{about}\n\n{setting_tables(study)}"


def broken(study: Study) -> int:
    """Runs that ended at chance."""
    return sum(count for count, _ in study["broke"].values())


def merged(*names: str) -> Study | None:
    """Parts on one benchmark as one study of runs that did not break, if the first is there."""
    found = [read(name) for name in names]
    first = found[0]
    if first is None:
        return None
    more = [study for study in found[1:] if study is not None]
    rows, broke = [], dict[str, list[int]]()
    for row in (row for study in (first, *more) for row in study["rows"]):
        sound = [place for place, last in enumerate(row["last"]) if last >= CHANCE]
        kept = {name: [row[name][place] for place in sound] for name in PER_SEED}
        counts = broke.setdefault(row["arm"], [0, 0])
        counts[0] += len(row["final"]) - len(sound)
        counts[1] += len(row["final"])
        rows += [{**row, **kept}] if sound else []
    added = {name: sum(study[name] for study in (first, *more)) for name in ("runs", "missing")}
    begun = {study["part"] for study in (first, *more)}
    added["missing"] += sum(len(PARTS[name].cells()) for name in names if name not in begun)
    return {**first, **added, "rows": rows, "broke": broke}


def page() -> str:
    study, mnist = read("synthetic"), merged("mnist", "mnist-fedcore")
    gentle = merged(*GENTLE)
    assert study is not None, "run the part 'synthetic' first"
    part = PARTS["synthetic"]
    network = PARTS["mnist"].prices.choosing
    missing = f" {study['missing']} runs are missing." if study["missing"] else ""
    how = told(
        f"- Synthetic(1, 1), {study['runs']} runs of {part.rounds} rounds, 10 of 30 clients each, "
        f"step size {part.learning_rate:g}, seeds {', '.join(map(str, part.seeds))}.{missing} A "
        f"seed draws cohorts, shuffles, the first model and wrong labels; all arms have the same.",
        "  ",
    )
    return f"""# Does choosing beat drawing?

Written by `make study-choosing` from `benchmarks/results/choosing-*.json`, numbers in sentences
included; [benchmarks/choosing](../benchmarks/choosing/README.md) says how to run it.

## What it says

{conclusions(study, mnist, gentle)}

![Differences to a draw per round](images/choosing.png)

Points of held-out accuracy against a draw per round, mean over all settings of a condition in which
an arm fits, with 95 % intervals over seeds; grey where the interval holds zero.

## How it was done

{how}
- Every client has share x E x m samples of time a round, m its samples. A forward pass costs
  {FORWARD:.2f} of a trained sample, choosing {part.prices.choosing:.2f} of one for each of a
  client's samples (the CNN: {network:.3f}; [measured](../benchmarks/selection_price.py)). What is
  left is trained on: E epochs, unless the arm says otherwise. Where less than
  {100 * LEAST:g} % of the samples would be left for an epoch, the cell says "does not fit".
- Accuracies are means over the last tenth of the rounds, on clean held-out data. A cell is the mean
  of an arm's differences to `{ARMS[BASE].title}`, seed by seed, ± half of a 95 % interval
  (Student's t); **bold** where it leaves zero out. One in twenty would do so by chance. Over
  several settings a seed's differences are averaged first.
- With E = 1 a draw per round, a draw per epoch and a partial epoch are one thing (=).
- k-medoids go by inputs here, as the paper has it for convex models. They could be chosen once and
  kept; "at no price" has that case, as if the one choice were free.

## All arms

{overview(study)}

{by_lever(study)}

{better()}
{steps_table.section()}
{rules_table.section()}
{mnist_section(mnist)}
{gentle_section(gentle)}
## Every setting, Synthetic(1, 1)

The first row has accuracies in percent, the others differences to it.

{setting_tables(study)}"""


def main() -> None:
    study = read("synthetic")
    assert study is not None, "run the part 'synthetic' first"
    picture.draw(study, arms_of(study))
    PAGE.write_text(page().rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
