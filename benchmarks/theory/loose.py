"""How many times what is measured the bounds are, on 100 random problems.

    python -m benchmarks.theory.loose

Of every problem the tightest place; of all problems the least and the median.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

from benchmarks.theory.cases import (  # noqa: E402
    SHARES,
    Case,
    square,
    step_bounds,
    variance_bounds,
)


def factors(case: Case) -> dict[str, float]:
    """The least quotient of bound and measured over rounds or steps, by statement."""
    found: dict[str, list[float]] = {}
    for t, w, v, _ in case.synchronisations():
        measured = float(square(w - v).mean())
        if measured < 1e-20:  # nobody has moved
            continue
        paper, corrected = variance_bounds(case.paper, t)[0], variance_bounds(case.corrected, t)[1]
        found.setdefault("Lemma A.9, variance of a draw: the paper's", []).append(paper / measured)
        found.setdefault("Lemma A.9, variance of a draw: corrected", []).append(
            corrected / measured
        )
    for t, w in enumerate(case.steps.w[:-1]):
        if t % case.epochs:
            measured = float(SHARES @ square(w - case.steps.bar_w[t]).mean(1))
            if measured < 1e-20:
                continue
            most = (2 * case.etas[t] * (case.epochs - 1) * case.paper.gradient) ** 2
            found.setdefault("Eq. F5, how far clients part: the paper's", []).append(
                most / measured
            )
    after = case.distances(case.steps.bar_v)
    found["Lemma A.10, one step: corrected"] = (step_bounds(case) / after).tolist()
    ends = case.distances(case.models)[1:]
    corrected = case.corrected.distance_bound(case.times[1:])
    paper = case.paper.distance_bound(case.times[1:], corrected=False)
    found["Theorem A.7, after a round or more: the paper's"] = (paper / ends).tolist()
    found["Theorem A.7, after a round or more: corrected"] = (corrected / ends).tolist()
    stepwise = np.array(case.corrected.recursion(case.rounds)[1:])
    found["Theorem A.7, after a round or more: recursion"] = (stepwise / ends).tolist()
    return {name: min(values) for name, values in found.items()}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    every = [factors(Case(seed)) for seed in range(100)]
    print("| bound divided by measured | least | median |\n| --- | --- | --- |")
    for name in sorted({name for one in every for name in one}):
        values = [one[name] for one in every if name in one]
        print(f"| {name} | {min(values):.3g} | {np.median(values):.3g} |")


if __name__ == "__main__":
    main()
