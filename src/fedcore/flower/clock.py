"""The wall clock of a server: jobs go out over a Flower grid, answers come in or time is up."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from logging import INFO, WARNING
from typing import TYPE_CHECKING

from flwr.app import ArrayRecord, Message, MessageType, RecordDict
from flwr.supercore import log

from fedcore.errors import FedCoreError
from fedcore.flower import wire
from fedcore.flower.fleet import Fleet
from fedcore.flower.post import Letter, Post
from fedcore.server.clock import Clock
from fedcore.server.method import Action, Cohort, Draw, Sampler, Situation
from fedcore.server.state import Job
from fedcore.sources.clients import ClientSizes
from fedcore.types import Assignment, ClientId, ClientProfile, LocalUpdate, Params, Way

if TYPE_CHECKING:
    from fedcore.flower.strategy import FedCore

POLL, LOOK = 0.2, 1.0  # seconds between two looks for answers, and for who is online
LONGEST_PULL = 1.0  # seconds before the end of a round from which on there may be no pull
USED = 0.98  # of a node's time is planned with
TTL = 3.0  # times a job's limit that a message may live: who is busy is not asked again before
SHARED = ("steps", "work", "loss_sum", "loss_square_sum", "loss_count")  # with an update


@dataclass(slots=True)
class Notes:
    """What happened since the last merge."""

    metrics: list[RecordDict] = field(default_factory=list)  # of answers that were merged
    failed: list[tuple[ClientId, str]] = field(default_factory=list)  # with the reason
    refused: int = 0


class GridClock(Clock):
    """Real time: every look for answers is a pull, and time runs while anybody is out.

    A ``virtual`` one waits for everybody, and counts each node's own seconds: in a simulation,
    nodes wait for one another's processes.
    """

    def __init__(
        self,
        post: Post,
        fleet: Fleet,
        owner: FedCore,
        order: RecordDict,
        most: float,
        bounded: bool,
    ) -> None:
        """Bind who carries messages, who is known, and an ``order`` with nothing in it but config.

        A job lasts ``most`` seconds where the strategy is not ``bounded`` by deadlines.
        """
        self.deadline = self.now = 0.0
        self.fleet, self.notes, self.post = fleet, Notes(), post
        self._options, self._numbers, self._order = owner.options, owner, order
        self._most, self._bounded = most, bounded
        self.virtual = owner.options.clock == "virtual"
        self._began, self._stands = post.monotonic(), True  # time stands until somebody is out
        self._ready: deque[tuple[Job, LocalUpdate]] = deque()
        self._tickets, self._took = 0, 0.0  # orders so far; seconds of the last pull
        self._model: tuple[int, ArrayRecord] = (-1, ArrayRecord())
        self._inner = owner.options.build_sampler(fleet.model_bytes)
        self.sampler = Sampler(self._draw, self._observe if self._inner.observe else None)
        self._known = len(fleet)  # nodes that the sampler's memory is about
        self._wanted = 0  # answers that end the round

    @property
    def limit(self) -> float:
        """Seconds that a job may last."""
        return self.deadline if self._bounded else self._most

    @property
    def patience(self) -> float:
        """The same on the wall."""
        return self._most if self.virtual else self.limit

    @property
    def in_flight(self) -> tuple[Job, ...]:
        """Those whose answer is still wanted."""
        out = [letter.job for letter in self.post.out.values() if letter.wanted and letter.job]
        return tuple(sorted([*out, *(job for job, _ in self._ready)], key=lambda j: j.sequence))

    def __len__(self) -> int:
        return len(self.in_flight)

    def time_for_work(self, client: ClientProfile, deadline: float | None = None) -> float:
        """What the way, as measured, leaves of the deadline."""
        way = client.transfer_seconds(self.fleet.model_bytes)
        return max(0.0, (deadline or self.deadline) - way) * USED

    def send(self, jobs: Sequence[Job]) -> None:
        """Hand jobs out; if nobody was out at the merge, time begins now."""
        if jobs and self._stands:
            self._began, self._stands = self.post.monotonic(), False
        letters = [self._letter(job.assignment.client_id, job, self.patience) for job in jobs]
        messages = [self._message(job, letter) for job, letter in zip(jobs, letters, strict=True)]
        for letter in self.post.push(messages, letters):
            self.notes.failed.append((letter.client, "the SuperLink did not take its message"))

    def wait(self, alarm: float | None) -> tuple[Job, LocalUpdate] | None:
        """The next good answer; None: alarm and grace are over, or nobody is out any more.

        Without an alarm also after a failure, so that the server can fill the place.
        """
        # The last look is a little earlier, so that the round is over when the grace is.
        spare = self.patience - self.deadline + max(0.0, self._options.grace - POLL)
        until = float("inf") if alarm is None else self._began + alarm + spare
        while True:
            failures, time = len(self.notes.failed), self.post.monotonic()
            if not self._ready and time + self._took <= until:  # a pull cannot be cut off
                self.collect()
                self._took = min(self.post.monotonic() - time, LONGEST_PULL)
            time = self.post.monotonic()
            if not self.virtual:
                self.now = time - self._began
            if self._ready:
                return self._ready.popleft()
            failed = alarm is None and len(self.notes.failed) > failures
            if (spent := time - self._began) > TTL * self.patience + self._options.grace:
                raise FedCoreError(f"too few answers for a merge in {spent:.0f} s; see the log")
            if failed or time >= until or not len(self):
                return None
            self.post.sleep(min(POLL, until - time))

    def restart(self, *, cancel: bool = False) -> list[tuple[Job, float]]:
        """A merge: time begins again; whoever is cancelled still owes an answer."""
        late = []
        if cancel:
            self._ready.clear()
            for letter in self.post.out.values():
                if letter.wanted and letter.job:
                    letter.wanted = False
                    late.append((letter.job, self.now))
        self._began, self.now, self._stands = self.post.monotonic(), 0.0, not len(self)
        return late

    def expect(self, assignments: Sequence[Assignment]) -> None:
        """Nodes prepare nothing."""

    def decide(self, seen: Situation) -> Action:
        """The synchronous round on the wall: everybody, or enough of them, or time is up."""
        if not seen.in_flight:
            return Action.MERGE
        done = seen.alarm or seen.answers >= self._wanted
        return Action.MERGE_AND_CANCEL if done else Action.WAIT

    def ask(self, messages: Sequence[Message]) -> list[Message]:
        """Answers to messages that are no jobs, as long as a job's message would live."""
        clients = {node: client for client, node in self.fleet.online.items()}
        limit = TTL * self.patience
        letters = [self._letter(clients[m.metadata.dst_node_id], None, limit) for m in messages]
        for message in messages:
            message.metadata.ttl = TTL * limit
        self.post.push(messages, letters)
        until, out = self.post.monotonic() + limit, self.post.out
        while self.post.monotonic() < until and any(x.wanted and not x.job for x in out.values()):
            self.post.sleep(POLL)
            self.collect()
        for letter in letters:
            letter.wanted = False
        return [letter.answer for letter in letters if letter.answer is not None]

    def collect(self) -> None:
        """Take in what has come."""
        for letter in self.post.pull():
            if letter.job is not None:
                self._take(letter, letter.job)

    def _draw(self, asked: Draw) -> Cohort:
        """Draw among those who are there and idle; where nobody is out, wait for them."""
        least, began = self._numbers.min_available_nodes, self.post.monotonic()
        while True:
            self.fleet.meet(self.post.grid.get_nodes())
            online, liars = set(self.fleet.online), self.fleet.left_out(asked.version)
            free = online - self.post.busy() - liars
            if asked.busy or (len(online) >= least and free):
                break
            if len(online) >= least and online == liars:
                raise FedCoreError(
                    f"all {len(online)} nodes are left out for bad answers; see the log"
                )
            if (spent := self.post.monotonic() - began) >= self._options.wait_for_nodes:
                raise FedCoreError(
                    f"{len(online)} nodes are online and {len(self.post.busy())} owe an answer, "
                    f"but at least {least} are needed, for {spent:.0f} s now; start more "
                    "SuperNodes, and compare clocks: one that is 5 s ahead of the SuperLink's has "
                    "its node refused, which then says 'terminated gracefully'"
                )
            log(INFO, "waiting for nodes: %d online, at least %d needed", len(online), least)
            self.post.sleep(LOOK)
            self.collect()
        share = int(self._numbers.fraction_train * len(online))
        self._wanted = max(share, self._numbers.min_train_nodes, 1)
        most = math.ceil(self._options.over_selection * self._wanted) - len(asked.busy)
        count, rest = max(0, min(asked.count, most)), frozenset(self.fleet) - free
        sizes, memory = self.fleet.sizes(), self._memory(asked.memory)
        here = replace(asked, count=count, sizes=sizes, busy=rest, memory=memory)
        return self._inner.draw(here)

    def _observe(self, memory: Params, update: LocalUpdate, sizes: ClientSizes) -> Params:
        memory, self._known = self._memory(memory), len(self.fleet)
        look_back = self._inner.observe
        return look_back(memory, update, self.fleet.sizes()) if look_back else memory

    def _memory(self, memory: Params) -> Params:
        """A sampler's, which begins anew when the fleet has grown."""
        return memory if self._known == len(self.fleet) else {}

    def _letter(self, client: ClientId, job: Job | None, limit: float) -> Letter:
        self._tickets += 1
        sent = self.post.monotonic()
        return Letter(client, job, self._tickets, sent, sent + TTL * limit)

    def _message(self, job: Job, letter: Letter) -> Message:
        told, (arrays, config) = job.assignment, self._order
        if self._model[0] != told.base_version:  # one record for all: it is sent once
            self._model = told.base_version, wire.to_record(job.base)
        back = 0.0 if self.virtual else self.fleet.back(told.client_id, self.limit)
        order = wire.Order(told, self.limit, back, letter.ticket, int(self.virtual))
        content = RecordDict({arrays: self._model[1]})
        content[config] = own = self._order.config_records[config].copy()
        own["server-round"], own[wire.ORDER] = told.base_version + 1, wire.order_text(order)
        wire.read_order(own[wire.ORDER])  # a plan that no node takes is refused here
        if told.shift is not None:
            content[wire.SHIFT] = wire.to_record(told.shift)
        node = self.fleet.online[told.client_id]
        return Message(content, node, MessageType.TRAIN, ttl=TTL * self.patience)

    def _take(self, letter: Letter, job: Job) -> None:
        """An answer: learn from it; pass it on if it is good and in time, else note why not."""
        try:
            failure = self._read(letter, job)
        except wire.BadMessage as error:
            self.fleet.refuse(letter.client, job.assignment.base_version)
            self.notes.refused += 1
            failure = f"refused: {error}"
        if failure:
            log(WARNING, "node %d, order %d: %s", letter.client, letter.ticket, failure)
        if failure and letter.wanted:
            self.notes.failed.append((letter.client, failure))

    def _read(self, letter: Letter, job: Job) -> str | None:
        """Take an answer in; gives why it is none that can be merged."""
        told, options, answer, trip = job.assignment, self._options, letter.answer, letter.trip
        if answer is None and trip >= letter.expires - letter.sent:
            return "its message expired"
        if answer is None:
            raise wire.BadMessage("its bytes are no message")
        if answer.has_error():
            return f"code {answer.error.code}: {answer.error.reason!r:.200}"
        report, examples, metrics = wire.read_counts(
            answer.content, told, letter.ticket, options.local_epochs, trip
        )
        limit = (letter.expires - letter.sent) / TTL
        if self.virtual:
            trip, limit = report.handler_seconds, self.limit
            self.now = max(self.now, min(trip, limit + options.grace))
        self.fleet.learn(letter.client, report, examples, trip, letter.timely or self.virtual)
        if not letter.wanted or (self.virtual and trip > limit + options.grace):
            return f"answered {trip - limit:.1f} s late"
        if not report.steps:
            return "it had no time to train"
        params, norm = wire.read_model(answer.content, job.base, self.fleet.longest())
        whole = report.work >= options.local_epochs * examples
        size = None if whole else report.coreset_size or None  # everything is no coreset
        path = Way.FULL if whole else told.plan.path
        if path in (Way.FULL, Way.CORESET) and not whole and (size or report.cut_short):
            path = Way.CORESET if size else Way.PARTIAL
        update = LocalUpdate(
            *(letter.client, params, examples, job.copies, told.base_version),
            seconds=trip,
            payload=wire.read_weight(metrics, options.weighted_by),
            fell_back=bool(report.fell_back),
            coreset_size=size,
            gradient_error=None if report.gradient_error < 0 else report.gradient_error,
            path=path,
            **{name: getattr(report, name) for name in SHARED},
        )
        self.fleet.accept(letter.client, norm)
        self.notes.metrics.append(RecordDict({"metrics": metrics}))
        self._ready.append((job, update))
        return None
