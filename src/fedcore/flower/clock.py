"""The wall clock of a server: jobs go out over a Flower grid, answers come in or time is up."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from logging import INFO, WARNING
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from flwr.supercore import log

from fedcore import compression
from fedcore.errors import BadOption, FedCoreError
from fedcore.flower import wire
from fedcore.flower.fleet import Fleet
from fedcore.flower.post import TTL, Letter, Post
from fedcore.server.clock import Clock
from fedcore.server.method import Action, Cohort, Draw, Sampler, Situation
from fedcore.server.state import Job
from fedcore.sim.world import build_sampler
from fedcore.types import ClientId, ClientProfile, LocalUpdate, Way

if TYPE_CHECKING:
    from fedcore.flower.strategy import FedCore

POLL, LOOK = 0.2, 1.0  # seconds between two looks for answers, and for who is online
LEAST_ASKED = 60.0  # seconds that an evaluation may take, where jobs may take as long
LONGEST_PULL = 1.0  # seconds before the end of a round from which on there may be no pull
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
        self, grid: Grid, fleet: Fleet, owner: FedCore, config: Any, most: float, bounded: bool
    ) -> None:
        """A job lasts ``most`` seconds where the strategy is not ``bounded`` by deadlines."""
        self.post = Post(grid, owner.monotonic, owner.sleep)
        self.fleet, self._owner, self._options = fleet, owner, owner.options
        self._config, self._most, self._bounded = dict(config or {}), most, bounded
        self._virtual = owner.options.clock == "virtual"
        self.now, self.notes, self.reason = 0.0, Notes(), ""  # why the deadline
        self._began = self._heard = math.inf  # when somebody was out, a good answer came
        self._ready: deque[tuple[Job, LocalUpdate, RecordDict]] = deque()
        self._took, self._wanted = 0.0, 0  # seconds of the last pull; answers that end a round
        self._model: tuple[int, ArrayRecord] = (-1, ArrayRecord())
        self._inner = build_sampler(owner.options.experiment(), fleet.model_bytes)
        observe = self._inner.observe
        of_all = observe and (lambda memory, update, _: observe(memory, update, fleet.sizes()))
        self.sampler = Sampler(self._draw, of_all)

    def set_deadline(self) -> None:
        """Decide what the next round may last."""
        self._round_began = self.post.monotonic()
        seen = self.fleet.seen(self._options.local_epochs, self._most)
        self.deadline, self.reason = self._options.build_controller().decide(seen)
        self.fleet.rounds.append([self.deadline, 0.0, 0.0])
        # What a job may last, by its node's clock and on the wall.
        self.limit = self.deadline if self._bounded else self._most
        self.patience = self._most if self._virtual else self.limit
        ways = [one.way for c in self.fleet.online if len((one := self.fleet.nodes[c]).ways) > 1]
        if ways and len(ways) == len(self.fleet.online) and min(ways) >= self.limit:  # from trip 2
            raise BadOption(
                f"everybody would sit out: the deadline is {self.limit:.1f} s, but messages alone "
                f"take {min(ways):.1f} to {max(ways):.1f} s; set it to {2 * max(ways):.0f} s"
            )

    @property
    def in_flight(self) -> tuple[Job, ...]:
        """Those whose answer is still wanted."""
        out = [letter.job for letter in self.post.out.values() if letter.wanted and letter.job]
        return tuple(sorted([*out, *(job for job, *_ in self._ready)], key=lambda j: j.sequence))

    def time_for_work(self, client: ClientProfile, deadline: float | None = None) -> float:
        """What the way, as measured, leaves of the deadline."""
        way = client.transfer_seconds(self.fleet.model_bytes)
        return max(0.0, (deadline or self.deadline) - way) * wire.SAFE

    def send(self, jobs: Sequence[Job]) -> None:
        """Hand jobs out; if nobody was out at the merge, time begins now."""
        if jobs and self._began == math.inf:
            self._began = self._heard = self.post.monotonic()
        messages = [self._message(job) for job in jobs]
        letters = [Letter(job.assignment.client_id, job, self.patience) for job in jobs]
        for letter in self.post.push(messages, letters):
            self.notes.failed.append((letter.client, "the SuperLink did not take its message"))

    def wait(self, alarm: float | None) -> tuple[Job, LocalUpdate] | None:
        """The next good answer; None: alarm and grace are over, or nobody is out any more."""
        # The last look is a little earlier, so that the round is over when the grace is.
        spare = self.patience - self.deadline + max(0.0, self._options.grace - POLL)
        until = math.inf if alarm is None else self._began + alarm + spare
        while True:
            failures, time = len(self.notes.failed), self.post.monotonic()
            if not self._ready and time + self._took <= until:  # a pull cannot be cut off
                self.collect()
                self._took = min(self.post.monotonic() - time, LONGEST_PULL)
            time = self.post.monotonic()
            self.now = self.now if self._virtual else time - self._began
            if self._ready:
                job, update, metrics = self._ready.popleft()
                self.notes.metrics.append(metrics)
                self._heard = time
                return job, update
            if (still := time - self._heard) > TTL * self.patience + self._options.grace:
                raise FedCoreError(f"too few answers: none in {still:.0f} s; see the log")
            # Without an alarm, who failed is told of at once, so that the place can be filled.
            failed = alarm is None and len(self.notes.failed) > failures
            if failed or time >= until or not len(self):
                return None
            self.post.sleep(min(POLL, until - time))

    def restart(self, *, cancel: bool = False) -> list[tuple[Job, float]]:
        """A merge: time begins again; whoever is cancelled still owes an answer."""
        late = []
        if cancel:
            late = [(job, self.now) for job in self.in_flight]
            self._ready.clear()
            for letter in self.post.out.values():
                letter.wanted = False
        self._began, self.now = self.post.monotonic() if len(self) else math.inf, 0.0
        return late

    def decide(self, seen: Situation) -> Action:
        """The synchronous round on the wall: everybody, or enough of them, or time is up."""
        over = seen.alarm or seen.answers >= self._wanted or not seen.in_flight
        return Action.MERGE_AND_CANCEL if over else Action.WAIT

    def ask(self, messages: Sequence[Message], nodes: Mapping[int, ClientId]) -> list[RecordDict]:
        """Answers to messages that are no jobs, which take about as long as the round did."""
        took = self.post.monotonic() - self._round_began
        limit = max(LEAST_ASKED, TTL * min(self.patience, max(LEAST_ASKED, took)))
        letters = [Letter(nodes[m.metadata.dst_node_id], None, limit) for m in messages]
        self.post.push(messages, letters)
        until, out = self.post.monotonic() + limit, self.post.out
        while self.post.monotonic() < until and any(x in letters for x in out.values()):
            self.post.sleep(POLL)
            self.collect()
        return [x.answer.content for x in letters if x.answer and x.answer.has_content()]

    def collect(self) -> None:
        """Take in what has come: learn from it, pass on what is good and in time."""
        for letter in self.post.pull():
            job, answer, failure = letter.job, letter.answer, None
            if answer is None and letter.trip >= TTL * letter.limit:
                failure = "its message expired"
            elif answer is not None and answer.has_error():
                failure = f"code {answer.error.code}: {answer.error.reason!r:.200}"
            elif job:
                try:
                    failure = self._read(letter, job)
                except wire.BadMessage as error:
                    self.fleet.refuse(letter.client, job.assignment.base_version)
                    self.notes.refused += 1
                    failure = f"refused: {error}"
            if failure:
                what = f"order {job.sequence}" if job else "evaluation"
                log(WARNING, "node %d, %s: %s", letter.client, what, failure)
            if failure and job and letter.wanted:
                self.notes.failed.append((letter.client, failure))

    def _draw(self, asked: Draw) -> Cohort:
        """Draw among those who are there and idle; where nobody is out, wait for them."""
        owner, least, began = self._owner, self._owner.min_available_nodes, self.post.monotonic()
        while True:
            self.fleet.meet(self.post.grid.get_nodes())
            online = set(self.fleet.online)
            liars = {c for c in online if self.fleet.nodes[c].left_out_until > asked.version}
            free = online - (busy := self.post.busy()) - liars
            if asked.busy or (len(online) >= least and free):
                break
            if len(online) >= least and online == liars:
                raise FedCoreError(f"all {len(online)} nodes are left out for bad answers")
            if (spent := self.post.monotonic() - began) >= self._options.wait_for_nodes:
                raise FedCoreError(
                    f"{len(online)} nodes are online and {len(busy)} owe an answer, but at least "
                    f"{least} are needed, for {spent:.0f} s now; start more SuperNodes and compare "
                    "clocks: a node that is 5 s ahead is refused, and says 'terminated gracefully'"
                )
            log(INFO, "waiting for nodes: %d online, at least %d needed", len(online), least)
            self.post.sleep(LOOK)
            self.collect()
        self._wanted = max(int(owner.fraction_train * len(online)), owner.min_train_nodes, 1)
        most = math.ceil(self._options.over_selection * self._wanted) - len(asked.busy)
        count, rest = max(0, min(asked.count, most)), frozenset(self.fleet) - free
        return self._inner.draw(replace(asked, count=count, sizes=self.fleet.sizes(), busy=rest))

    def _message(self, job: Job) -> Message:
        told, owner = job.assignment, self._owner
        if self._model[0] != told.base_version:  # one record for all: it is sent once
            self._model = told.base_version, ArrayRecord(dict(job.base))
        back = 0.0 if self._virtual else self.fleet.back(told.client_id, self.limit)
        how = int(self._virtual), self._options.compress
        text = wire.order_text(wire.Order(told, self.limit, back, job.sequence, *how))
        wire.read_order(text)  # a plan that no node takes is refused here
        config = {**self._config, "server-round": told.base_version + 1, wire.ORDER: text}
        content = RecordDict({owner.arrayrecord_key: self._model[1]})
        content[owner.configrecord_key] = ConfigRecord(config)
        if told.shift is not None:
            content[wire.SHIFT] = ArrayRecord(dict(told.shift))
        return Message(content, self.fleet.online[told.client_id], MessageType.TRAIN)

    def _read(self, letter: Letter, job: Job) -> str | None:
        """Take an answer in; gives why it is none that can be merged."""
        told, options, answer, trip = job.assignment, self._options, letter.answer, letter.trip
        if answer is None:
            raise wire.BadMessage("its bytes are no message")
        epochs = max(options.local_epochs, sum(phase.epochs for phase in told.plan.phases))
        order = told.base_version, job.sequence, epochs
        report, examples, metrics = wire.read_counts(answer.content, *order, trip)
        limit = letter.limit
        if self._virtual:
            trip, limit = report.handler_seconds, self.limit
            self.now = max(self.now, min(trip, limit + options.grace))
        self.fleet.learn(letter.client, report, examples, trip, letter.timely or self._virtual)
        if not letter.wanted or (self._virtual and trip > limit + options.grace):
            return f"answered {trip - limit:.1f} s late"
        if not report.steps:
            return f"it had no {'time to train' if examples else 'samples'}"
        how = compression.read("compress", options.compress)
        longest = self.fleet.longest(report.work)
        params, norm = wire.read_model(answer.content, job.base, longest, how)
        whole, path = report.work >= options.local_epochs * examples, told.plan.path
        size = None if whole else report.coreset_size or None  # everything is no coreset
        if whole:
            path = Way.FULL
        elif path in (Way.FULL, Way.CORESET) and (size or report.cut_short):
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
        self.fleet.accept(letter.client, norm, report.work)
        self._ready.append((job, update, RecordDict({"metrics": metrics})))
        return None
