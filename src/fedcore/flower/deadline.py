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

    before: float | None  # the last one; None: there was none
    full: Sequence[float]  # seconds that E epochs and the way take, of all who were measured
    overheads: Sequence[float]  # seconds that the way alone takes
    most: float  # the longest that a round may last


Controller = Callable[[Seen], tuple[float, str]]  # seconds, and why


def controller(deadline: float | str | Controller | None, stragglers: float) -> Controller:
    """The controller that an option names: seconds, 'auto' or None, or one of the user's own."""
    if callable(deadline):
        return deadline
    if deadline is None or deadline == "auto":
        return by_percentile(stragglers)
    if isinstance(deadline, str | bool):
        raise BadOption(f"deadline must be seconds or 'auto', got {deadline!r}")
    above_zero("deadline", seconds := float(deadline))
    return lambda seen: (seconds, "fixed")


def by_percentile(stragglers: float) -> Controller:
    """τ moves towards the (100 - s)-th percentile of the fleet, so that s % are stragglers."""

    def decide(seen: Seen) -> tuple[float, str]:
        if not seen.full:
            return seen.most, "nobody was measured yet"
        aim = float(np.percentile(seen.full, 100 - stragglers))
        reason = f"{100 - stragglers:g} % of {len(seen.full)} nodes need {aim:.1f} s"
        # The first round lasts as long as it may, so its deadline says nothing.
        known = seen.before is not None and seen.before < seen.most
        tau = seen.before + SMOOTHING * (aim - seen.before) if known and seen.before else aim
        least = ROOM * float(np.median(seen.overheads)) if seen.overheads else 0.0
        if tau < least:
            tau, reason = least, f"{reason}, but messages alone take {least / ROOM:.1f} s"
        return min(tau, seen.most), reason

    return decide
