"""A wall-clock budget that long computations look at between pieces of work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment in ``time.monotonic``; ``None`` means there is no hurry."""

    moment: float | None = None

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """Return the deadline that lies ``seconds`` from now."""
        return cls(None if seconds is None else time.monotonic() + seconds)

    def earlier(self, seconds: float) -> Deadline:
        """Return the deadline that leaves ``seconds`` of this one unspent."""
        return Deadline(None if self.moment is None else self.moment - seconds)

    def left(self) -> float:
        """Return the seconds that remain, infinite without a deadline, never negative."""
        return float("inf") if self.moment is None else max(self.moment - time.monotonic(), 0.0)

    def over(self) -> bool:
        """Say whether the time is up."""
        return self.moment is not None and time.monotonic() >= self.moment

    def pieces(self, total: int, size: int) -> Iterator[tuple[int, int]]:
        """Yield ranges that cover 0 .. total, stopping early when the time is up."""
        for begin in range(0, total, size):
            if self.over():
                return
            yield begin, min(begin + size, total)


class Pace:
    """Says whether another step like the last one fits in before a deadline."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline, self._last, self._longest = deadline, time.monotonic(), 0.0
        self._begun = False

    def allows_another(self) -> bool:
        """Say so, to be asked before each step."""
        now = time.monotonic()
        if self._begun:
            self._longest = max(self._longest, now - self._last)
        self._begun, self._last = True, now
        return self._deadline.left() > self._longest
