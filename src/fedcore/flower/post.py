"""Messages out, answers in: a few at a time; no wait is without end, as Flower's own are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import WARNING

from flwr.app import Message
from flwr.serverapp import Grid
from flwr.supercore import log

from fedcore.errors import FedCoreError
from fedcore.server.state import Job
from fedcore.types import ClientId

AT_ONCE = 16  # answers of one call: memory follows these, not all that are out
TTL = 3.0  # times a job's limit that a message may live: who is busy is not asked again before
PROMPT = 1.0  # seconds between two pulls, at most, for a trip to be known


@dataclass(slots=True, eq=False)
class Letter:
    """A message that is out, and what came of it."""

    client: ClientId
    job: Job | None  # None: an evaluation
    limit: float  # seconds that the node has
    sent: float = 0.0  # when
    wanted: bool = True  # False: too late, but the node still owes the answer
    answer: Message | None = None  # None: there is none, or its bytes are no message
    trip: float = 0.0  # seconds
    timely: bool = False  # collected as it came, so that the trip is known


class Post:
    """All letters of a run, by the id of their message: the sender of an error is not its node."""

    def __init__(
        self, grid: Grid, monotonic: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self.grid, self.monotonic, self.sleep = grid, monotonic, sleep
        self.out: dict[str, Letter] = {}
        self._pulled = monotonic()  # when all were asked for the last time

    def busy(self) -> set[ClientId]:
        """Who has not answered, in time or not."""
        return {letter.client for letter in self.out.values()}

    def push(self, messages: Sequence[Message], letters: Sequence[Letter]) -> list[Letter]:
        """Send; gives those that were not taken, as when their node has just left."""
        for message, letter in zip(messages, letters, strict=True):
            message.metadata.ttl = TTL * letter.limit
        ids, sent = list(self.grid.push_messages(messages)) if messages else [], self.monotonic()
        if len(ids) != len(messages):
            what = f"the SuperLink took {len(ids)} of {len(messages)} messages"
            raise FedCoreError(f"{what}; its log says why, most likely the model is too large")
        for letter in letters:
            letter.sent = sent
        named = list(zip(ids, letters, strict=True))
        self.out.update({key: letter for key, letter in named if key})
        return [letter for key, letter in named if not key]

    def pull(self) -> list[Letter]:
        """Some that are answered since, if any are; else those that were let expire."""
        now, ids = self.monotonic(), list(self.out)
        timely = now - self._pulled <= PROMPT
        found: dict[str, Message | None] = {}
        while ids and not found:
            found, ids = self._collect(ids[:AT_ONCE]), ids[AT_ONCE:]
        if not found:
            self._pulled = now
            found = {k: None for k, one in self.out.items() if one.sent + TTL * one.limit <= now}
        letters = [self.out.pop(key) for key in found]
        for one, answer in zip(letters, found.values(), strict=True):
            one.answer, one.timely, one.trip = answer, timely, self.monotonic() - one.sent
        return letters

    def _collect(self, ids: Sequence[str]) -> dict[str, Message | None]:
        """The answers to ``ids``; None is one that cannot be read, which must not harm others."""
        try:
            told = {m.metadata.reply_to_message_id: m for m in self.grid.pull_messages(ids)}
            return {key: message for key, message in told.items() if key in self.out}
        except Exception as error:
            self.grid.get_nodes()  # which ends the run if the SuperLink does not answer
            if len(ids) > 1:
                return {k: message for one in ids for k, message in self._collect([one]).items()}
            log(WARNING, "an answer cannot be read: %r", error)
            return {ids[0]: None}
