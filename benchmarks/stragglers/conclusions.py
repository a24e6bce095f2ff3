"""What the study says, in sentences whose numbers are read from its results.

That the words fit the numbers is held by tests/benchmarks/test_stragglers.py.
"""

from __future__ import annotations

import statistics
import textwrap

from benchmarks.stragglers.figures import Study, shown_time, times_to, values
from benchmarks.stragglers.settings import METHODS

ON_TIME = ("partial", "fedprox", "fednova", "scaffold-partial", "feddyn-partial")
DRAWN = ("random-subset", "random-epochs", "stratified", "importance")
PLAIN_ASYNC = ("fedbuff", "fadas", "fedasync-constant", "fedasync", "fedasync-hinge")
AROUND_AVERAGE = ("fedavgm", "fedadam", "fedyogi", "fedadagrad")
AROUND_CORE = ("fedcore-momentum", "fedcore-adam", "fedcore-yogi", "fedcore-adagrad")


def both(studies: list[Study], name: str, key: str = "final_test_accuracy") -> str:
    """The median of a method in every fleet, in percent; a hyphen where it was not run."""
    found = [
        f"{statistics.median(values(study, name, key, 100)):.1f}"
        if name in study["methods"]
        else "-"
        for study in studies
    ]
    return " / ".join(found)


def listed(studies: list[Study], names: tuple[str, ...]) -> str:
    """Methods with their medians; those that were run on no fleet are left out."""
    there = [name for name in names if any(name in study["methods"] for study in studies)]
    return "; ".join(f"{METHODS[name].title} {both(studies, name)}" for name in there)


def lowest(study: Study, name: str) -> float:
    """Final accuracy of the worst seed, in percent."""
    return min(values(study, name, "final_test_accuracy", 100))


def worst(studies: list[Study], name: str) -> str:
    return " / ".join(
        f"{lowest(study, name):.1f}" if name in study["methods"] else "-" for study in studies
    )


def ahead_everywhere(studies: list[Study], ours: str = "fedcore") -> list[str]:
    """Methods whose final accuracy is above ours in every seed of every fleet."""

    def above(study: Study, name: str) -> bool:
        pairs = zip(
            values(study, name, "final_test_accuracy"),
            values(study, ours, "final_test_accuracy"),
            strict=True,
        )
        return all(a > b for a, b in pairs)

    return [
        name
        for name in studies[0]["methods"]
        if all(name in study["methods"] and above(study, name) for study in studies)
    ]


def merges(studies: list[Study], name: str) -> str:
    return " / ".join(f"{statistics.median(values(s, name, 'merges')):.0f}" for s in studies)


def soon(studies: list[Study], name: str) -> str:
    """Deadlines to 90 % of the best final accuracy."""
    return " / ".join(shown_time(times_to(study, name, study["targets"][0])) for study in studies)


def names_of(names: list[str]) -> str:
    """As a sentence has them."""
    titles = [METHODS[name].title for name in names]
    if not titles:
        return "nobody"
    return " and ".join(filter(None, [", ".join(titles[:-1]), titles[-1]]))


def text(studies: list[Study], networks: list[Study]) -> str:
    fleets = " / ".join(f"`{study['fleet']}`" for study in studies)
    head = f"Final accuracies in percent, median of the seeds, fleet {fleets}."
    bullets = "\n".join(
        textwrap.fill(
            f"- **{claim}** {sentences}",
            width=100,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for claim, sentences in {**told(studies), **told_of_networks(networks)}.items()
    )
    return f"## What it says\n\n{head}\n\n{bullets}\n"


def told(studies: list[Study]) -> dict[str, str]:
    """Claims, and the numbers that they stand on."""

    def end(name: str, key: str = "final_test_accuracy") -> str:
        return both(studies, name, key)

    core = end("fedcore")
    slow = "slow_accuracy"
    return {
        "Neither wait nor drop.": (
            f"In the time in which FedCore merges {merges(studies, 'fedcore')} times, FedAvg "
            f"merges {merges(studies, 'fedavg')} times and ends at {end('fedavg')}, FedCore at "
            f"{core}. FedAvg-DS, which drops slow clients, ends at {end('fedavg-ds')}; a third "
            f"more clients of whom the last are left (FedAvg-OS), at {end('fedavg-os')}."
        ),
        "Fewer epochs do until a large client cannot finish one.": (
            "Then it sits out, and what only it knows is missing. "
            f"{listed(studies, ON_TIME)}. Their worst seeds: "
            + "; ".join(f"{METHODS[name].title} {worst(studies, name)}" for name in ON_TIME)
            + f". FedCore's: {worst(studies, 'fedcore')}."
        ),
        "A coreset is no better than a random subset here.": (
            f"{listed(studies, DRAWN)}; FedCore {core}. What counts on this benchmark, a linear "
            "model whose coresets go by inputs, is that slow clients train on some of everything "
            "they have, in time."
        ),
        "Asynchronous methods without a memory serve the fast.": (
            f"{listed(studies, PLAIN_ASYNC)}. Of the samples of slow clients FedBuff gets "
            f"{end('fedbuff', slow)} right, FedCore {end('fedcore', slow)}. CA2FL, which counts "
            "for every client what it moved last, present or not, ends at "
            f"{end('ca2fl')}, {end('ca2fl', slow)} on slow clients."
        ),
        "FedCore inside the asynchronous loops": (
            "makes jobs short, hence answers fresh. FedCore-Buff ends at "
            f"{end('fedcore-buff')} where FedBuff ends at {end('fedbuff')}, FedCore-Async at "
            f"{end('fedcore-async')} where FedAsync ends at {end('fedasync')}."
        ),
        "FedCore is early, CA2FL late.": (
            "To 90 % of the best final accuracy it takes "
            f"{soon(studies, 'fedcore')} deadlines, a random subset "
            f"{soon(studies, 'random-subset')}, FedCore-Buff {soon(studies, 'fedcore-buff')}, "
            f"CA2FL, which must first have met everybody, {soon(studies, 'ca2fl')}; FedAvg and "
            "FedBuff do not get there in most seeds."
        ),
        "Tempo, ours, is early and ends high.": (
            "It draws, spends all of its time, lets few steps count for more, and goes as far as "
            f"its merges lead on: {end('tempo')}, worst seeds {worst(studies, 'tempo')}, and "
            f"{soon(studies, 'tempo')} deadlines to 90 % of the best final accuracy."
        ),
        "Whom one draws.": (
            f"With FedAvg, uniform draws end at {end('fedavg-uniform')}. Oort draws who is fast "
            f"and makes many merges ({merges(studies, 'oort')}) without the slow, and ends at "
            f"{end('oort')}; power-of-choice at {end('power-of-choice')}. TiFL, whose rounds are "
            f"of one tier, so that the fast do not wait, ends at {end('tifl')}."
        ),
        "What the server does with answers counts more than which samples gave them.": (
            f"Server optimisers around FedCore: {listed(studies, AROUND_CORE)}; FedCore alone "
            f"{core}. With Adam it takes {soon(studies, 'fedcore-adam')} deadlines to 90 % of the "
            f"best final accuracy, alone {soon(studies, 'fedcore')}. Around FedAvg: "
            f"{listed(studies, AROUND_AVERAGE)}; FedAvg alone {end('fedavg')}."
        ),
        "Above FedCore in every seed of both fleets:": (f"{names_of(ahead_everywhere(studies))}."),
    }


def told_of_networks(studies: list[Study]) -> dict[str, str]:
    """The order of final accuracies on MNIST and Shakespeare."""
    claims = {}
    for study in studies:
        final = {
            name: statistics.median(values(study, name, "final_test_accuracy", 100))
            for name in study["methods"]
        }
        order = sorted(final, key=lambda name: -final[name])
        each = "; ".join(f"{METHODS[name].title} {final[name]:.1f}" for name in order)
        of = {"mnist": "MNIST", "shakespeare": "Shakespeare"}[study["benchmark"]]
        claims[f"A network, {of}, fleet `{study['fleet']}`, one seed:"] = f"{each}."
    return claims
