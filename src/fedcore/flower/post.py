"""Messages out, answers in, over a grid that may fail: a few at a time, and every wait bounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from logging import WARNING
from typing import TypeVar

from flwr.app import Message
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore import log

from fedcore.errors import FedCoreError
from fedcore.server.state import Job
from fedcore.types import ClientId

AT_ONCE = 16  # messages of one call: memory follows these, not all that are out
PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)  # seconds between attempts to reach the SuperLink
PROMPT = 1.0  # seconds between two pulls, at most, for a trip to be known
T = TypeVar("T")


class SuperLinkLost(FedCoreError):
    """The SuperLink does not answer any more."""


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
        self.monotonic, self.sleep = monotonic, sleep
        self.out: dict[str, Letter] = {}
        self._grid = grid
        self._pulled = monotonic()  # when all were asked for the last time

    def nodes(self) -> list[NodeInfo]:
        """Who is online."""
        return self._calmly(lambda: list(self._grid.get_nodes()))

    def busy(self) -> set[ClientId]:
        """Who has not answered, in time or not."""
        return {letter.client for letter in self.out.values()}

    def push(self, messages: Sequence[Message], letters: Sequence[Letter]) -> list[Letter]:
        """Send; gives those that were not taken, as when their node has just left."""
        sent: list[tuple[str, Letter]] = []
        for start in range(0, len(messages), AT_ONCE):
            part = messages[start : start + AT_ONCE]
            ids = self._calmly(partial(self._push, part))
            if len(ids) != len(part):
                raise FedCoreError(
                    f"the SuperLink took {len(ids)} of {len(part)} messages; its log says why, "
                    "most likely the model is too large for it"
                )
            sent += zip(ids, letters[start : start + AT_ONCE], strict=True)
        self.out.update({key: letter for key, letter in sent if key})
        return [letter for key, letter in sent if not key]

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

    def _push(self, part: Sequence[Message]) -> list[str]:
        return list(self._grid.push_messages(part))

    def _close(self, key: str, answer: Message | None, timely: bool) -> Letter:
        letter = self.out.pop(key)
        letter.answer, letter.timely = answer, timely
        letter.trip = self.monotonic() - letter.sent
        return letter

    def _collect(self, ids: Sequence[str]) -> list[tuple[str, Message | None]]:
        """The answers to ``ids``; None is one that cannot be read, which must not harm others."""
        for last in (False, True):
            try:
                found = list(self._grid.pull_messages(ids))
                return [(message.metadata.reply_to_message_id, message) for message in found]
            except Exception as error:
                self.nodes()  # which ends the run if the SuperLink is gone
                if len(ids) == 1 and last:
                    log(WARNING, "an answer cannot be read: %r", error)
        if len(ids) == 1:
            return [(ids[0], None)]
        return [pair for key in ids for pair in self._collect([key])]

    def _calmly(self, call: Callable[[], T]) -> T:
        """The result of a call, tried again for a while."""
        pauses = iter(PAUSES)
        while True:
            try:
                return call()
            except Exception as error:
                if (pause := next(pauses, None)) is None:
                    raise SuperLinkLost(
                        f"the SuperLink does not answer ({error!r:.100}); start it again, "
                        "and then the run, with the same checkpoint folder"
                    ) from error
                log(WARNING, "the SuperLink does not answer; again in %s s: %r", pause, error)
                self.sleep(pause)
