"""Messages out, answers in: a few at a time, and every wait bounded.

Flower tries again by itself, without end, where a SuperLink is away; nothing here does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import WARNING

from flwr.app import Message
from flwr.serverapp import Grid
from flwr.supercore import log

from fedcore.errors import FedCoreError
from fedcore.server.state import Job
from fedcore.types import ClientId

AT_ONCE = 16  # messages of one call: memory follows these, not all that are out
PROMPT = 1.0  # seconds between two pulls, at most, for a trip to be known


@dataclass(slots=True)
class Letter:
    """A message that is out, and what came of it."""

    client: ClientId
    job: Job | None  # None: an evaluation
    ticket: int
    sent: float  # when
    expires: float
    wanted: bool = True  # False: too late, but the node still owes the answer
    answer: Message | None = None  # None: there is none, or its bytes are no message
    trip: float = 0.0  # seconds
    timely: bool = False  # collected as it came, so that the trip is known


class Post:
    """All letters of a run, by the id of their message: the sender of an error is not its node."""

    def __init__(
        self, grid: Grid, monotonic: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        """Bind the grid, and the time."""
        self.grid, self.monotonic, self.sleep = grid, monotonic, sleep
        self.out: dict[str, Letter] = {}
        self._pulled = monotonic()  # when all were asked for the last time

    def busy(self) -> set[ClientId]:
        """Who has not answered, in time or not."""
        return {letter.client for letter in self.out.values()}

    def push(self, messages: Sequence[Message], letters: Sequence[Letter]) -> list[Letter]:
        """Send; gives those that were not taken, as when their node has just left."""
        refused = []
        for start in range(0, len(messages), AT_ONCE):
            part = messages[start : start + AT_ONCE]
            ids = list(self.grid.push_messages(part))
            if len(ids) != len(part):
                raise FedCoreError(
                    f"the SuperLink took {len(ids)} of {len(part)} messages; its log says why, "
                    "most likely the model is too large for it"
                )
            sent = list(zip(ids, letters[start : start + AT_ONCE], strict=True))
            self.out.update({key: letter for key, letter in sent if key})
            refused += [letter for key, letter in sent if not key]
        return refused

    def pull(self) -> list[Letter]:
        """Some that are answered since, if any are; else those that were let expire."""
        now = self.monotonic()
        timely, ids = now - self._pulled <= PROMPT, list(self.out)
        for start in range(0, len(ids), AT_ONCE):
            found = self._collect(ids[start : start + AT_ONCE])
            if arrived := [(key, m) for key, m in found if key in self.out]:
                return [self._close(key, message, timely) for key, message in arrived]
        self._pulled = now
        expired = [key for key, letter in self.out.items() if letter.expires <= now]
        return [self._close(key, None, False) for key in expired]

    def _close(self, key: str, answer: Message | None, timely: bool) -> Letter:
        letter = self.out.pop(key)
        letter.answer, letter.timely = answer, timely
        letter.trip = self.monotonic() - letter.sent
        return letter

    def _collect(self, ids: Sequence[str]) -> list[tuple[str, Message | None]]:
        """The answers to ``ids``; None is one that cannot be read, which must not harm others."""
        try:
            found = list(self.grid.pull_messages(ids))
            return [(message.metadata.reply_to_message_id, message) for message in found]
        except Exception as error:
            self.grid.get_nodes()  # which ends the run if the SuperLink does not answer
            if len(ids) > 1:
                return [pair for key in ids for pair in self._collect([key])]
            log(WARNING, "an answer cannot be read: %r", error)
            return [(ids[0], None)]
