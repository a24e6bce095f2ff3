"""Rules that make up for what slow clients could not do, to be compared; one became `tempo`.

A client that trained n of E m samples moved the model by Δ. Its answer counts as φ Δ, 1 <= φ <=
E m / n; the rules differ in what else bounds φ.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from fedcore.server.merge import Updates, all_at_once, moved, summed
from fedcore.server.method import Merge
from fedcore.server.state import ServerState
from fedcore.types import LocalUpdate

Known = Sequence[tuple[float, float]]  # |Δ| and E m / n of every answer
Rule = Callable[[Known], Sequence[float]]  # -> φ of each


def unbounded(known: Known) -> list[float]:
    """φ = E m / n, however far that leads."""
    return [missed for _, missed in known]


def to_the_median(known: Known) -> list[float]:
    """φ |Δ| <= R, the median |Δ| of those who did everything; without any of those, of all."""
    return bounded(known, statistics.median(whole(known)))


def to_the_longest_whole(known: Known) -> list[float]:
    """φ |Δ| <= R, the longest |Δ| of those who did everything; without any of those, of all."""
    return bounded(known, max(whole(known)))


def to_the_longest(known: Known) -> list[float]:
    """φ |Δ| <= R, the longest |Δ| of all."""
    return bounded(known, max(length for length, _ in known))


def whole(known: Known) -> list[float]:
    """|Δ| of those who did everything; without any of those, of all."""
    found = [length for length, missed in known if missed <= 1]
    return found or [length for length, _ in known]


def bounded(known: Known, reach: float) -> list[float]:
    return [max(1.0, min(missed, reach / max(length, 1e-30))) for length, missed in known]


def by_the_root(known: Known) -> list[float]:
    """φ = √(E m / n)."""
    return [math.sqrt(missed) for _, missed in known]


def lengthened(rule: Rule, epochs: int, batch_size: int) -> Merge:
    """w + Σ p_i φ_i Δ_i."""

    def missed(one: LocalUpdate) -> float:
        return epochs * -(-one.num_samples // batch_size) / one.steps

    def merge(state: ServerState, updates: Updates) -> ServerState:
        known = [(length_of(one), missed(one)) for one in updates]
        total = sum(one.copies for one in updates)
        factors = rule(known)
        weights = [one.copies * own / total for one, own in zip(updates, factors, strict=True)]
        return replace(state, params=moved(state.params, summed(updates, weights)))

    return all_at_once(merge, moves=True)


def length_of(one: LocalUpdate) -> float:
    return math.sqrt(sum(float(value.double().square().sum()) for value in one.params.values()))
