"""Rules that make up for what slow clients could not do, to be compared.

A client that takes a of the ā steps of a whole round, E epochs on everything, moves the model by Δ.
Its answer counts as φ Δ; the rules differ in φ.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fedcore.server.merge import Updates, all_at_once, length, moved, summed
from fedcore.server.method import Merge
from fedcore.server.state import ServerState


@dataclass(frozen=True)
class Answer:
    """What a rule goes by."""

    length: float  # |Δ|
    steps: float  # a
    whole: float  # ā
    copies: int = 1

    @property
    def missed(self) -> float:
        """ā / a."""
        return self.whole / self.steps


Known = Sequence[Answer]
Rule = Callable[[Known], Sequence[float]]  # -> φ of each


def unbounded(known: Known) -> list[float]:
    """φ = ā / a, however far that leads."""
    return [one.missed for one in known]


def by_the_root(known: Known) -> list[float]:
    """φ = √(ā / a)."""
    return [math.sqrt(one.missed) for one in known]


def to_the_median(known: Known) -> list[float]:
    """φ = ā / a, but φ |Δ| <= R, the median |Δ| of who did everything; if nobody did, of all."""
    reach = statistics.median(whole(known))
    return [max(1.0, min(one.missed, within(one, reach))) for one in known]


def to_the_longest(known: Known) -> list[float]:
    """φ = ā / a, but φ |Δ| <= R, the longest |Δ| of all."""
    reach = max(one.length for one in known)
    return [max(1.0, min(one.missed, within(one, reach))) for one in known]


def nova(known: Known) -> list[float]:
    """φ = mean a / a: FedNova's, moves per step times the mean number of steps."""
    far = mean(known, [one.steps for one in known])
    return [far / one.steps for one in known]


def nova_whole(known: Known) -> list[float]:
    """φ = mean ā / a: the same, times the mean number of steps of whole rounds."""
    far = mean(known, [one.whole for one in known])
    return [far / one.steps for one in known]


def nova_root(known: Known) -> list[float]:
    """φ = √(mean ā / a): between answers as they are and moves per step; `tempo` had it."""
    return [math.sqrt(factor) for factor in nova_whole(known)]


def nova_longest(known: Known) -> list[float]:
    """The same, but φ |Δ| <= R, the longest |Δ| of all."""
    reach = max(one.length for one in known)
    return [min(f, within(one, reach)) for f, one in zip(nova_whole(known), known, strict=True)]


def nova_median(known: Known) -> list[float]:
    """The same, but φ |Δ| <= R, the median |Δ| of who did everything; if nobody did, of all."""
    reach = statistics.median(whole(known))
    return [min(f, within(one, reach)) for f, one in zip(nova_whole(known), known, strict=True)]


def whole(known: Known) -> list[float]:
    """|Δ| of those who did everything; without any of those, of all."""
    found = [one.length for one in known if one.missed <= 1]
    return found or [one.length for one in known]


def within(one: Answer, reach: float) -> float:
    return reach / max(one.length, 1e-30)


def mean(known: Known, values: Sequence[float]) -> float:
    """Over draws."""
    pairs = zip(known, values, strict=True)
    return sum(one.copies * value for one, value in pairs) / sum(one.copies for one in known)


def lengthened(rule: Rule, epochs: int, batch_size: int, bounded: bool = False) -> Merge:
    """w + Σ p_i φ_i Δ_i; bounded, no further than the longest Δ_i."""

    def merge(state: ServerState, updates: Updates) -> ServerState:
        known = [
            Answer(
                float(length(one.params)),
                one.steps,
                epochs * -(-one.num_samples // batch_size),
                one.copies,
            )
            for one in updates
        ]
        total = sum(one.copies for one in updates)
        factors = rule(known)
        weights = [one.copies * own / total for one, own in zip(updates, factors, strict=True)]
        move = summed(updates, weights)
        far = max(one.length for one in known) / max(float(length(move)), 1e-30)
        share = min(1.0, far) if bounded else 1.0
        return replace(state, params=moved(state.params, move, share))

    return all_at_once(merge, moves=True)
