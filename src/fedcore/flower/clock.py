"""The wall clock of a server: jobs go out over a Flower grid, answers come in or time is up."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from logging import WARNING
from typing import Any

from flwr.app import ArrayRecord, Message, MessageType, RecordDict
from flwr.supercore import log

from fedcore.errors import FedCoreError
from fedcore.flower import answers
from fedcore.flower.fleet import Fleet
from fedcore.flower.options import Options
from fedcore.flower.post import Letter, Post
from fedcore.flower.wire import ORDER, SHIFT, BadMessage, Order, Report, order_text, read_order
from fedcore.server.clock import Clock
from fedcore.server.state import Job
from fedcore.types import Assignment, ClientId, ClientProfile, LocalUpdate

POLL = 0.2  # seconds between two looks for answers
USED = 0.98  # of a node's time is planned with
TTL = 3.0  # deadlines that a message may live: shorter, and a busy node would be asked again
SHARED = ("steps", "loss_sum", "loss_square_sum", "loss_count", "fell_back")  # with an update


@dataclass(slots=True)
class Notes:
    """What happened since the last merge, by client."""

    answered: dict[ClientId, list[Report]] = field(default_factory=lambda: defaultdict(list))
    metrics: list[RecordDict] = field(default_factory=list)
    failed: list[tuple[ClientId, str]] = field(default_factory=list)  # with the reason
    refused: int = 0


class GridClock(Clock):
    """Real time: every look for answers is a pull, and time runs while anybody is out."""

    def __init__(
        self, post: Post, fleet: Fleet, options: Options, order: RecordDict, unlimited: float | None
    ) -> None:
        """Bind who carries messages, who is known, and an ``order`` with nothing in it but config.

        ``unlimited`` are the seconds of a job where the strategy keeps no deadline.
        """
        self.deadline = self.now = 0.0
        self.fleet, self.notes = fleet, Notes()
        self._post, self._options, self._order, self._unlimited = post, options, order, unlimited
        self._began, self._stands = post.monotonic(), True  # time stands until somebody is out
        self._ready: deque[tuple[Job, LocalUpdate]] = deque()
        self._tickets = 0
        self._model: tuple[int, ArrayRecord] = (-1, ArrayRecord())

    @property
    def limit(self) -> float:
        """Seconds that a job may last."""
        return self._unlimited or self.deadline

    @property
    def in_flight(self) -> tuple[Job, ...]:
        """Those whose answer is still wanted."""
        out = [letter.job for letter in self._post.out.values() if letter.wanted and letter.job]
        return tuple(sorted([*out, *(job for job, _ in self._ready)], key=lambda j: j.sequence))

    def __len__(self) -> int:
        return len(self.in_flight)

    def time_for_work(self, client: ClientProfile) -> float:
        """What the way, as measured, leaves of the deadline."""
        way = client.transfer_seconds(self.fleet.model_bytes)
        return max(0.0, self.deadline - way) * USED

    def send(self, jobs: Sequence[Job]) -> None:
        """Hand jobs out; if nobody was out at the merge, time begins now."""
        if jobs and self._stands:
            self._began, self._stands = self._post.monotonic(), False
        letters = [self._letter(job.assignment.client_id, job, self.limit) for job in jobs]
        messages = [self._message(job, letter) for job, letter in zip(jobs, letters, strict=True)]
        for letter in self._post.push(messages, letters):
            self.notes.failed.append((letter.client, "the SuperLink did not take its message"))

    def wait(self, alarm: float | None) -> tuple[Job, LocalUpdate] | None:
        """The next good answer; None: alarm and grace are over, or nobody is out any more.

        Without an alarm also after a failure, so that the server can fill the place.
        """
        spare = self.limit - self.deadline + self._options.grace
        until = float("inf") if alarm is None else self._began + alarm + spare
        while True:
            failures = len(self.notes.failed)
            if not self._ready:
                self.collect()
            time = self._post.monotonic()
            self.now = time - self._began
            if self._ready:
                return self._ready.popleft()
            failed = alarm is None and len(self.notes.failed) > failures
            if self.now > TTL * self.limit + self._options.grace:
                raise FedCoreError(f"too few answers for a merge in {self.now:.0f} s; see the log")
            if failed or time >= until or not len(self):
                return None
            self._post.sleep(min(POLL, until - time))

    def restart(self, *, cancel: bool = False) -> list[tuple[Job, float]]:
        """A merge: time begins again; whoever is cancelled still owes an answer."""
        late = []
        if cancel:
            self._ready.clear()
            for letter in self._post.out.values():
                if letter.wanted and letter.job:
                    letter.wanted = False
                    late.append((letter.job, self.now))
        self._began, self.now, self._stands = self._post.monotonic(), 0.0, not len(self)
        return late

    def expect(self, assignments: Sequence[Assignment]) -> None:
        """Nodes prepare nothing."""

    def take_notes(self) -> Notes:
        """What happened since they were taken last."""
        notes, self.notes = self.notes, Notes()
        return notes

    def ask(self, messages: Sequence[Message], limit: float) -> list[Message]:
        """Answers to messages that are no jobs, within ``limit`` seconds."""
        clients = {node: client for client, node in self.fleet.online.items()}
        letters = [self._letter(clients[m.metadata.dst_node_id], None, limit) for m in messages]
        for message in messages:
            message.metadata.ttl = TTL * limit
        waiting = len(messages) - len(self._post.push(messages, letters))
        until, found = self._post.monotonic() + limit, 0
        while found < waiting and self._post.monotonic() < until:
            self._post.sleep(POLL)
            found += self.collect()
        for letter in letters:
            letter.wanted = False
        return [letter.answer for letter in letters if letter.answer is not None]

    def collect(self) -> int:
        """Take in what has come; gives the number of answers that are none to jobs."""
        others = 0
        for letter in self._post.pull():
            if letter.job is None:
                others += letter.wanted
            else:
                self._take(letter, letter.job)
        return others

    def _letter(self, client: ClientId, job: Job | None, limit: float) -> Letter:
        self._tickets += 1
        sent = self._post.monotonic()
        return Letter(client, job, self._tickets, sent, sent + TTL * limit)

    def _message(self, job: Job, letter: Letter) -> Message:
        told, (arrays, config) = job.assignment, self._order
        if self._model[0] != told.base_version:  # one record for all: it is sent once
            self._model = told.base_version, answers.to_record(job.base)
        order = Order(told, self.limit, self.fleet.back(told.client_id, self.limit), letter.ticket)
        content = RecordDict({arrays: self._model[1]})
        content[config] = own = self._order.config_records[config].copy()
        own["server-round"], own[ORDER] = told.base_version + 1, order_text(order)
        read_order(own[ORDER])  # a plan that no node takes is refused here, not by all of them
        if told.shift is not None:
            content[SHIFT] = answers.to_record(told.shift)
        node = self.fleet.online[told.client_id]
        return Message(content, node, MessageType.TRAIN, ttl=TTL * self.limit)

    def _take(self, letter: Letter, job: Job) -> None:
        """An answer: learn from it; pass it on if it is good and in time, else note why not."""
        try:
            failure = self._read(letter, job)
        except BadMessage as error:
            self.fleet.refuse(letter.client, job.assignment.base_version)
            self.notes.refused += 1
            failure = f"refused: {error}"
        if failure:
            log(WARNING, "node %d, order %d: %s", letter.client, letter.ticket, failure)
        if failure and letter.wanted:
            self.notes.failed.append((letter.client, failure))

    def _read(self, letter: Letter, job: Job) -> str | None:
        """Take an answer in; gives why it is none that can be merged."""
        if letter.answer is None and letter.trip >= letter.expires - letter.sent:
            return "its message expired"
        if letter.answer is None:
            raise BadMessage("its bytes are no message")
        if letter.answer.has_error():
            return f"code {letter.answer.error.code}: {letter.answer.error.reason!r:.200}"
        told, content, options = job.assignment, letter.answer.content, self._options
        report, examples, metrics = answers.read_counts(
            content, told, letter.ticket, options.local_epochs, letter.trip
        )
        self.fleet.learn(letter.client, report, examples, letter.trip, letter.timely)
        if not letter.wanted:
            return f"answered {letter.trip - (letter.expires - letter.sent) / TTL:.1f} s late"
        if not report.steps:
            return "it had no time to train"
        params, norm = answers.read_model(content, job.base, self.fleet.longest())
        said: dict[str, Any] = {name: getattr(report, name) for name in SHARED}
        said["payload"] = answers.read_weight(metrics, options.weighted_by)
        said["fell_back"], said["coreset_size"] = (
            bool(said["fell_back"]),
            report.coreset_size or None,
        )
        said["gradient_error"] = None if report.gradient_error < 0 else report.gradient_error
        who = letter.client, params, examples, job.copies, told.base_version
        update = LocalUpdate(*who, seconds=letter.trip, **said)
        self.fleet.accept(letter.client, norm)
        self.notes.answered[letter.client].append(report)
        self.notes.metrics.append(RecordDict({"metrics": metrics}))
        self._ready.append((job, update))
        return None
