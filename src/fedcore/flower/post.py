"""Messages out, answers in, over a grid that may fail: a few at a time, and every wait bounded."""

from __future__ import annotations

import time
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

AT_ONCE = 8  # messages of one call: memory follows these, not all that are out
PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)  # seconds between attempts to reach the SuperLink
T = TypeVar("T")


class SuperLinkLost(FedCoreError):
    """The SuperLink does not answer any more."""


@dataclass(slots=True)
class Letter:
    """What is known of a message that is out."""

    client: ClientId
    job: Job | None  # None: an evaluation
    ticket: int
    sent: float  # when
    expires: float
    wanted: bool = True  # False: too late, but the node still owes the answer


@dataclass(frozen=True, slots=True)
class Arrival:
    """What came of a letter: an answer, or none ever."""

    letter: Letter
    message: Message | None
    trip: float
    timely: bool  # collected as it came, so that the trip is known

    @property
    def expired(self) -> bool:
        """Whether nothing can come any more."""
        return self.letter.sent + self.trip >= self.letter.expires


class Post:
    """All letters of a run, by the id of their message: an error's own sender is not the node."""

    def __init__(
        self,
        grid: Grid,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
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
        """Send; gives the letters that the SuperLink did not take."""
        lost = []
        for start in range(0, len(messages), AT_ONCE):
            part = messages[start : start + AT_ONCE]
            ids = self._calmly(partial(self._push, part))
            if len(ids) != len(part):
                raise FedCoreError(
                    f"the SuperLink took {len(ids)} of {len(part)} messages; "
                    "its log says why, most likely the model is too large for it"
                )
            for key, letter in zip(ids, letters[start:], strict=False):
                if key:
                    self.out[key] = letter
                else:
                    lost.append(letter)
        return lost

    def pull(self) -> list[Arrival]:
        """Some of what has come since, if anything; whoever let a message expire is in it too."""
        now = self.monotonic()
        timely = now - self._pulled < 1.0
        ids = list(self.out)
        for start in range(0, len(ids), AT_ONCE):
            found = self._collect(ids[start : start + AT_ONCE])
            arrived = [(key, message) for key, message in found if key in self.out]
            if arrived:
                return [self._arrival(key, message, timely) for key, message in arrived]
        self._pulled = now
        expired = [key for key, letter in self.out.items() if letter.expires <= now]
        return [self._arrival(key, None, False) for key in expired]

    def _push(self, part: Sequence[Message]) -> list[str]:
        return list(self._grid.push_messages(part))

    def _arrival(self, key: str, message: Message | None, timely: bool) -> Arrival:
        letter = self.out.pop(key)
        return Arrival(letter, message, self.monotonic() - letter.sent, timely)

    def _collect(self, ids: Sequence[str]) -> list[tuple[str, Message | None]]:
        """The answers to ``ids``; None is one that cannot be read, which must not harm others."""
        try:
            found = list(self._grid.pull_messages(ids))
        except Exception as error:
            self.nodes()  # which ends the run if the SuperLink is gone
            if len(ids) > 1:
                return [pair for key in ids for pair in self._collect([key])]
            try:
                found = list(self._grid.pull_messages(ids))
            except Exception:
                log(WARNING, "an answer cannot be read: %r", error)
                return [(ids[0], None)]
        return [(message.metadata.reply_to_message_id, message) for message in found]

    def _calmly(self, call: Callable[[], T]) -> T:
        """The result of a call, tried again for a while."""
        for pause in PAUSES:
            try:
                return call()
            except Exception as error:
                log(WARNING, "the SuperLink does not answer (%r); again in %s s", error, pause)
                self.sleep(pause)
        try:
            return call()
        except Exception as error:
            raise SuperLinkLost(
                f"the SuperLink did not answer {len(PAUSES) + 1} times in a row ({error!r:.100}); "
                "start it again, then the run with the same checkpoint folder"
            ) from error
