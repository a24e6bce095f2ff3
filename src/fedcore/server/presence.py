"""Clients that come and go: here and away in turn, each time for as long as a draw says."""

import numpy as np
from numpy.typing import NDArray

from fedcore.seeding import stream
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientId


class Presence:
    """Every client is here for Exp(``here``) seconds, then away for Exp(``away``), and so on.

    It begins here with probability here / (here + away). Spell k is drawn by the seed and k alone.
    """

    def __init__(self, sizes: ClientSizes, here: float, away: float, seed: int) -> None:
        self._sizes = sizes
        self._seed = seed
        first = stream(seed, "presence").random(len(sizes)) < here / (here + away)
        # Mean times of even and of odd spells, of each client.
        self._means = np.where(first, [[here], [away]], [[away], [here]])
        self._first = first
        self._dropped = 0  # spells that all clients have behind them
        self._ends: list[NDArray[np.float64]] = []  # of the spells after these, as far as asked

    def away(self, time: float) -> tuple[frozenset[ClientId], float | None]:
        """Who is away at a time; where all are, also when the first is back. Times only grow."""
        spell = 0
        while self._end(spell).min() <= time:
            spell += 1
        while self._ends[0].max() <= time:
            del self._ends[0]
            self._dropped += 1
        ended = np.sum([ends <= time for ends in self._ends], axis=0) + self._dropped
        absent = self._first == (ended % 2 == 1)
        found = frozenset(self._sizes.ids[place] for place in np.flatnonzero(absent).tolist())
        if not absent.all():
            return found, None
        return found, float(min(ends[ends > time].min() for ends in self._ends))

    def pause(self, client: ClientId, time: float, seconds: float) -> float:
        """How long a client is away while it works for ``seconds`` from a time on."""
        place = self._sizes.place(client)
        paused, spell = 0.0, 0
        while True:
            end = float(self._end(spell)[place])
            span = max(0.0, end - time)
            if self._first[place] != ((spell + self._dropped) % 2 == 1):
                if seconds <= span:
                    return paused
                seconds -= span
            else:
                paused += span
            time, spell = max(time, end), spell + 1

    def _end(self, spell: int) -> NDArray[np.float64]:
        """When a spell ends, counted from the first that is kept, of each client."""
        while len(self._ends) <= spell:
            number = self._dropped + len(self._ends)
            drawn = stream(self._seed, "presence", number).exponential(size=len(self._sizes))
            before = self._ends[-1] if self._ends else 0.0
            self._ends.append(before + drawn * self._means[number % 2])
        return self._ends[spell]
