"""docs/stragglers.md and its picture from the committed results: ``make study-stragglers``.

Numbers in its sentences are read from the results too. A test fails when the page is stale.
"""

from __future__ import annotations

import math
import statistics
import textwrap
from pathlib import Path

from benchmarks.stragglers import conclusions, cost, orderings, picture, race
from benchmarks.stragglers.figures import (
    Study,
    accuracy,
    final,
    middle,
    ranking,
    read,
    results_of,
    shown_time,
    times_to,
    title_of,
    values,
    wins,
)
from benchmarks.stragglers.settings import OURS, PARTS
from benchmarks.tables import table

PAGE = Path(__file__).parents[2] / "docs" / "stragglers.md"
MAIN = "synthetic-1-1"
EDGES = {"smallest": " ↓", "largest": " ↑", None: ""}


def methods_table(study: Study) -> str:
    """Every method of a fleet, best first."""
    rows = []
    for name in ranking(study):
        method, results = study["methods"][name], results_of(study, name)
        title = f"**{method['title']}**" if name in OURS else method["title"]
        spent = [one["client_seconds"] / one["deadline_seconds"] for one in results]
        wasted = [one["wasted_client_seconds"] / (one["client_seconds"] or 1) for one in results]
        moved = [(one["bytes_up"] + one["bytes_down"]) / 1e6 for one in results]
        rows.append(
            [
                title,
                f"{method['learning_rate']:g}{EDGES[method['edge']]}",
                f"{statistics.median(one['merges'] for one in results):.0f}",
                middle(values(study, name, "final_test_accuracy", 100)),
                f"{statistics.median(values(study, name, 'best_test_accuracy', 100)):.1f}",
                half(values(study, name, "slow_accuracy", 100)),
                half(values(study, name, "worst_accuracy", 100)),
                *(shown_time(times_to(study, name, target)) for target in study["targets"]),
                half(values(study, name, "participation_fairness"), 2),
                f"{statistics.median(spent):.0f}",
                f"{100 * statistics.median(wasted):.0f} %",
                amount(statistics.median(moved)),
                staleness(study, name),
            ]
        )
    marks = [f"to {100 * target:.1f}" for target in study["targets"]]
    head = ["method", "step size", "merges", "final", "best", "slow clients", "worst tenth"]
    more = [*marks, "Jain", "client time", "wasted", "MB", "staleness"]
    return table([*head, *more], rows)


def amount(value: float) -> str:
    """Three figures, or all in front of the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def half(found: list[float], digits: int = 1) -> str:
    return f"{statistics.median(found):.{digits}f}" if found else "-"


def staleness(study: Study, name: str) -> str:
    means = values(study, name, "mean_staleness")
    if not means:
        return "-"
    largest = max(values(study, name, "largest_staleness"))
    return f"{statistics.median(means):.1f}, at most {largest:.0f}"


def rivals_table(study: Study, ours: str = "fedcore") -> str:
    """Who is above a method of ours in final accuracy, or reaches 95 % of the best before it."""
    target = study["targets"][1]
    own = statistics.median(times_to(study, ours, target))
    rows = []
    for name in ranking(study):
        difference = final(study, name) - final(study, ours)
        time = statistics.median(times_to(study, name, target))
        if name == ours or not (difference > 0 or time < own):
            continue
        better, _, seeds = wins(study, name, ours, accuracy)
        slow = statistics.median(values(study, name, "slow_accuracy", 100)) - statistics.median(
            values(study, ours, "slow_accuracy", 100)
        )
        rows.append(
            [
                title_of(study, name),
                f"{difference:+.1f}",
                f"{better} of {seeds}",
                f"{slow:+.1f}",
                f"{time:.1f}" if math.isfinite(time) else "not reached",
            ]
        )
    title = title_of(study, ours)
    head = ["method", f"final, against {title}", "ahead in seeds", "on slow clients"]
    shown = f"{own:.1f}" if math.isfinite(own) else "not reached"
    return table([*head, f"to {100 * target:.1f} ({title}: {shown})"], rows)


def orderings_table(studies: list[Study]) -> str:
    rows = [orderings.row(study, one) for one in orderings.ORDERINGS for study in studies]
    head = ["what is reported", "fleet", "the first", "the second", "seeds", "here"]
    return table(head, rows)


def studies_of(benchmark: str) -> list[Study]:
    found = (read(benchmark, fleet) for fleet in PARTS[benchmark].fleets)
    return [study for study in found if study is not None]


def neural_section(benchmark: str, title: str) -> str:
    """A table for each fleet of a benchmark that needs a GPU, where there are results."""
    parts = []
    for study in studies_of(benchmark):
        rates = ", ".join(f"{rate:g}" for rate in study["learning_rates"])
        told = (
            f"{len(study['methods'])} methods, one seed, {study['deadlines']:g} deadlines, step "
            f"sizes {rates}, each run to its end to choose by."
        )
        if study["missing"]:
            told += f" Not run yet: {', '.join(f'`{name}`' for name in study['missing'])}."
        lines = textwrap.fill(told, width=100, break_on_hyphens=False)
        parts.append(
            f"### {title}, fleet `{study['fleet']}`\n\n{lines}\n\n{methods_table(study)}\n"
        )
        if "fedcore" in study["methods"]:
            parts.append(f"Ahead of FedCore:\n\n{rivals_table(study)}\n")
    return "\n".join(parts)


def not_run(studies: list[Study]) -> str:
    """What is missing from which fleet, as a bullet; nothing where nothing is."""
    gaps = [
        f"on `{study['fleet']}` {', '.join(f'`{name}`' for name in study['missing'])}"
        for study in studies
        if study["missing"]
    ]
    if not gaps:
        return ""
    told = f"- Not run yet: {'; '.join(gaps)}. `make study-stragglers` goes on with them."
    return textwrap.fill(told, width=100, subsequent_indent="  ", break_on_hyphens=False) + "\n"


def page() -> str:
    studies = studies_of(MAIN)
    part = PARTS[MAIN]
    rates = ", ".join(f"{rate:g}" for rate in part.grid("paper"))
    seeds = ", ".join(map(str, part.seeds))
    count = len(set().union(*(study["methods"] for study in studies)))
    tables = "\n".join(
        f"### Fleet `{study['fleet']}`\n\n{methods_table(study)}\n" for study in studies
    )
    losses = "\n".join(f"Fleet `{study['fleet']}`:\n\n{rivals_table(study)}\n" for study in studies)
    events = sum(study["events_verified"] for study in studies)
    wrong = sum(study["events_wrong"] for study in studies)
    sections = "\n".join(
        section
        for name, title in (("mnist", "MNIST"), ("shakespeare", "Shakespeare"))
        if (section := neural_section(name, title))
    )
    neural = f"## Networks, on a GPU\n\n{sections}" if sections else ""
    return f"""# The straggler study

Written by `make study-stragglers` from `benchmarks/results/stragglers-*.json`, numbers in sentences
included; [benchmarks/stragglers](../benchmarks/stragglers/README.md) says how to run it.

{conclusions.text(studies, [*studies_of("mnist"), *studies_of("shakespeare")])}
![Accuracy by virtual time](images/stragglers.png)

Grey: all other methods. Lines are medians of {len(part.seeds)} seeds.

## How it was done

- {count} methods on Synthetic(1, 1), 30 clients, 30 % stragglers, seeds {seeds}.
  A seed draws speeds, cohorts and the initial model; all methods of a seed have the same.
- Fleets: `paper`, speeds N(1, 0.5²) without limits of links; `phones`, speeds and links of real
  phones ([fleets.md](fleets.md)).
- Everybody has the same virtual time, {part.deadlines:g} deadlines, however many merges that makes.
- Everybody has its best of the step sizes {rates}, chosen by one half of
  held-out data in the mean over seeds and reported on the other. ↓ and ↑ mark a choice at the lower
  or upper end of the grid: a better one may lie outside. Options of methods are their defaults
  ([methods.md](methods.md)), rates of server optimisers included, so these are not at their best.
- 10 clients a round or at work at once, drawn by size with replacement, and plain means. FedAvg
  with uniform draws, Oort and TiFL weighs answers by samples, since these draws do not; so does
  FedBalancer by itself, so it draws uniformly (on MNIST it drew by size as well, which counts
  sizes twice, and is not run anew); "FedCore, uniform" is there to be held against it. SCAFFOLD,
  FedDyn and CA2FL meet the same draws by size, where their papers have uniform ones. "Partial" with
  SCAFFOLD and FedDyn: slow clients train as many epochs as fit. TimelyFL is missing on Synthetic,
  for it needs several layers; on MNIST's fleet `phones` it was run before a rounding error was
  mended, by which the client that sets the time often left out its first layers, and not since.
{not_run(studies)}- `fedcore verify` read {events:,} events of these runs and found {wrong} wrong.

## All methods

Accuracies in percent, on held-out data; median over seeds, range in brackets. "Slow clients": over
the training samples of clients that cannot do all epochs in time. "Worst tenth": mean over the
tenth of clients with the lowest accuracy. "To": deadlines until 90, 95 and 99 % of the best final
accuracy of the fleet. Jain: fairness of participation. Client time: what clients worked, in
deadlines, and how much of that came to nothing. MB: both ways, where these runs still counted
TimelyFL's answers, which are parts of networks, as whole ones. Staleness: merges between a client's
start and its answer's use.

{tables}
## Where FedCore loses, and to whom

Methods that end above FedCore, or reach 95 % of the best final accuracy before it.

{losses}
{race.section()}
## Orderings that papers report

"Shown" or "refuted": so in every seed. Times are medians, in deadlines, to the highest two of the
accuracies 50, 60, 70, 80 and 90 % that either method reaches in any seed; a seed goes to whoever
reaches the highest first.

{orderings_table(studies)}

{cost.section()}
{neural}"""


def main() -> None:
    picture.draw(studies_of(MAIN))
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
