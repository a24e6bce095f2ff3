"""The wall clock of a server: jobs go out over a Flower grid, answers come in or time is up."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from logging import INFO, WARNING
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.supercore import log

from fedcore.flower import answers
from fedcore.flower.fleet import Fleet
from fedcore.flower.post import Arrival, Letter, Post
from fedcore.flower.wire import ORDER, SHIFT, BadMessage, Order, Report, order_text
from fedcore.server.state import Job
from fedcore.types import Assignment, ClientId, ClientProfile, LocalUpdate

POLL = 0.2  # seconds between two looks for answers
USED = 0.98  # of a node's time is planned with
TTL = 3.0  # deadlines that a message may live: shorter, and a busy node would be asked again


@dataclass(frozen=True, slots=True)
class Settings:
    """What a clock has to know of the run."""

    epochs: int
    grace: float  # seconds that answers are waited for after the deadline
    config: Mapping[str, Any]  # the user's, for every node
    keys: tuple[str, str]  # of the records of arrays and of the config
    weight_key: str | None = None  # of a metric that weighs an answer
    limit: float | None = None  # seconds for a job where the strategy keeps no deadline


@dataclass(slots=True)
class Notes:
    """What happened since the last merge, by client."""

    answered: dict[ClientId, list[Report]] = field(default_factory=dict)
    metrics: list[RecordDict] = field(default_factory=list)
    failed: dict[ClientId, str] = field(default_factory=dict)  # with the reason
    refused: int = 0
    late: list[tuple[Job, float]] = field(default_factory=list)  # with the seconds it had


class GridClock:
    """Real time: every look for answers is a pull, and time runs while anybody is out."""

    def __init__(self, post: Post, fleet: Fleet, settings: Settings) -> None:
        """Bind who carries messages, who is known, and what they are told."""
        self.deadline = self.now = 0.0
        self.notes = Notes()
        self.fleet = fleet
        self._post, self._settings = post, settings
        self._began = post.monotonic()
        self._ready: deque[tuple[Job, LocalUpdate]] = deque()
        self._tickets = 0
        self._model: tuple[int, ArrayRecord] = (-1, ArrayRecord())

    @property
    def limit(self) -> float:
        """Seconds that a job may last."""
        return self._settings.limit or self.deadline

    @property
    def in_flight(self) -> tuple[Job, ...]:
        """Those whose answer is still wanted."""
        out = [letter.job for letter in self._post.out.values() if letter.wanted and letter.job]
        return tuple(sorted([*out, *(job for job, _ in self._ready)], key=lambda j: j.sequence))

    def __len__(self) -> int:
        return len(self.in_flight)

    def time_for_work(self, client: ClientProfile) -> float:
        """What the way, as measured, leaves of the deadline."""
        return max(0.0, self.deadline - client.transfer_seconds(self.fleet.model_bytes)) * USED

    def send(self, jobs: Sequence[Job]) -> None:
        """Hand jobs out; if nobody else is out, time begins now."""
        if not len(self):
            self._began = self._post.monotonic()
        self.tick()
        messages, letters = [], []
        for job in jobs:
            self._tickets += 1
            messages.append(self._message(job, self._tickets))
            letters.append(self._letter(job.assignment.client_id, job, self.limit))
        for letter in self._post.push(messages, letters):
            self.notes.failed[letter.client] = "the SuperLink did not take its message"

    def wait(self, alarm: float | None) -> tuple[Job, LocalUpdate] | None:
        """The next good answer; None: the alarm rang and the grace is over, or somebody failed.

        After a failure the server may fill the place, if it does not wait for an alarm; and where
        nobody is out any more, nothing else can come.
        """
        spare = self.limit - self.deadline + self._settings.grace
        while not self._ready:
            failures = len(self.notes.failed)
            self.collect()
            self.tick()
            if self._ready:
                break
            failed = len(self.notes.failed) > failures and alarm is None
            if not len(self) or failed or (alarm is not None and self.now >= alarm + spare):
                return None
            left = POLL if alarm is None else alarm + spare - self.now
            self._post.sleep(min(POLL, left))
        return self._ready.popleft()

    def restart(self, *, cancel: bool = False) -> None:
        """A merge: time begins again; whoever is cancelled still owes an answer."""
        if cancel:
            self._ready.clear()
            for letter in self._post.out.values():
                if letter.wanted and letter.job:
                    letter.wanted = False
                    self.notes.late.append((letter.job, self.now))
        self._began, self.now = self._post.monotonic(), 0.0

    def expect(self, assignments: Sequence[Assignment]) -> None:
        """Nodes prepare nothing."""

    def take_notes(self) -> Notes:
        """What happened since they were taken last."""
        notes, self.notes = self.notes, Notes()
        return notes

    def tick(self) -> None:
        """Read the time."""
        self.now = self._post.monotonic() - self._began

    def collect(self) -> list[Message]:
        """Take in what has come; gives answers that are no training."""
        others = []
        for arrival in self._post.pull():
            if arrival.letter.job is None:
                others += [arrival.message] if arrival.message and arrival.letter.wanted else []
            else:
                self._take(arrival, arrival.letter.job)
        return others

    def ask(self, messages: Sequence[Message], limit: float) -> list[Message]:
        """Answers to other messages than jobs, within ``limit`` seconds."""
        clients = {node: client for client, node in self.fleet.online.items()}
        letters = [self._letter(clients[m.metadata.dst_node_id], None, limit) for m in messages]
        for message in messages:
            message.metadata.ttl = TTL * limit
        lost = len(self._post.push(messages, letters))
        until, found = self._post.monotonic() + limit, list[Message]()
        while len(found) + lost < len(messages) and self._post.monotonic() < until:
            found += self.collect()
            self._post.sleep(POLL)
        for letter in letters:
            letter.wanted = False
        return found

    def _letter(self, client: ClientId, job: Job | None, limit: float) -> Letter:
        sent = self._post.monotonic()
        return Letter(client, job, self._tickets, sent, sent + TTL * limit + POLL)

    def _message(self, job: Job, ticket: int) -> Message:
        told, settings = job.assignment, self._settings
        if self._model[0] != told.base_version:  # one record for all: it is sent once
            self._model = told.base_version, answers.to_record(job.base)
        back = self.fleet.back(told.client_id, self.limit)
        order = Order(told, self.limit, back, ticket)
        config = {**settings.config, "server-round": told.base_version + 1}
        arrays, config_key = settings.keys
        content = RecordDict({arrays: self._model[1]})
        content[config_key] = ConfigRecord({**config, ORDER: order_text(order)})
        if told.shift is not None:
            content[SHIFT] = answers.to_record(told.shift)
        node = self.fleet.online[told.client_id]
        return Message(content, node, MessageType.TRAIN, ttl=TTL * self.limit)

    def _take(self, arrival: Arrival, job: Job) -> None:
        """An answer: learn from it, and if it is good and in time, pass it on."""
        letter, client = arrival.letter, arrival.letter.client
        try:
            if arrival.message is None and arrival.expired:
                self.notes.failed[client] = "its message expired"
                return
            if arrival.message is None:
                raise BadMessage("its bytes are no message")
            if arrival.message.has_error():
                error = arrival.message.error
                log(WARNING, "node %d failed (code %d)", client, error.code)
                self.notes.failed[client] = f"code {error.code}: {error.reason!r:.200}"
                return
            content = arrival.message.content
            told, epochs = job.assignment, self._settings.epochs
            report, examples, metrics = answers.read_counts(
                content, told, letter.ticket, epochs, arrival.trip
            )
            self.fleet.learn(client, report, examples, arrival.trip, arrival.timely)
            if not letter.wanted:
                log(INFO, "node %d answered %.1f s late", client, arrival.trip - self.limit)
                return
            if not report.steps:
                self.notes.failed[client] = "it had no time to train"
                return
            params, norm = answers.read_answer(content, job.base, self.fleet.longest())
            payload = answers.read_weight(metrics, self._settings.weight_key)
        except BadMessage as error:
            self.fleet.refuse(client, job.assignment.base_version)
            self.notes.failed[client] = f"refused: {error}"
            self.notes.refused += 1
            log(WARNING, "the answer of node %d is refused: %s", client, error)
            return
        self.fleet.accept(client, norm)
        self.notes.answered.setdefault(client, []).append(report)
        self.notes.metrics.append(answers.own_metrics(metrics))
        update = LocalUpdate(
            client,
            params,
            examples,
            job.copies,
            told.base_version,
            report.steps,
            report.loss_sum,
            report.loss_square_sum,
            report.loss_count,
            seconds=arrival.trip,
            payload=payload,
            fell_back=bool(report.fell_back),
            coreset_size=report.coreset_size or None,
            gradient_error=report.gradient_error if report.gradient_error >= 0 else None,
        )
        self._ready.append((job, update))
