"""The deadline of the next round: fixed, or from what the fleet was measured to take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedcore.errors import BadOption
from fedcore.values import above_zero

SMOOTHING = 0.3  # share of what is measured now in the next deadline
ROOM = 1.5  # the shortest deadline, in overheads: below it hardly anything is trained


@dataclass(frozen=True, slots=True)
class Seen:
    """What a deadline is decided by."""

    before: float | None  # the last one
    full: Sequence[float]  # seconds that E epochs and the way take, of all who were measured
    overheads: Sequence[float]  # seconds that the way alone takes
    most: float  # the longest that a round may last


Controller = Callable[[Seen], tuple[float, str]]  # seconds, and why


def controller(deadline: float | str | Controller | None, stragglers: float) -> Controller:
    """What an option names: seconds; 'auto' or None, by the fleet; or a function of one's own.

    By the fleet, τ moves towards the (100 - s)-th percentile, so that s % are stragglers.
    """
    if callable(deadline):
        return deadline
    if isinstance(deadline, int | float):
        above_zero("deadline", seconds := float(deadline))
        return lambda seen: (seconds, "fixed")
    if deadline not in (None, "auto"):
        raise BadOption(f"deadline must be seconds or 'auto', got {deadline!r}")

    def by_percentile(seen: Seen) -> tuple[float, str]:
        if not seen.full:
            return seen.most, "nobody was measured yet"
        aim = float(np.percentile(seen.full, 100 - stragglers))
        reason = f"{100 - stragglers:g} % of {len(seen.full)} nodes need {aim:.1f} s"
        # The first round lasts as long as it may, so its deadline says nothing.
        old = seen.before if seen.before is not None and seen.before < seen.most else aim
        least = ROOM * float(np.median(seen.overheads)) if seen.overheads else 0.0
        return min(max(old + SMOOTHING * (aim - old), least), seen.most), reason

    return by_percentile
