"""Time as the server sees it: jobs go out, and what comes next is an answer or an alarm."""

import math
from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from operator import attrgetter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedcore.errors import BadOption
from fedcore.records import Event, event
from fedcore.seeding import stream
from fedcore.server.state import Job
from fedcore.sources.clients import ClientSizes
from fedcore.task import sent_bytes
from fedcore.types import Assignment, ClientId, ClientProfile, Executor, LocalUpdate, Params

ARRIVAL = attrgetter("arrives", "sequence")  # of jobs, to sort them by


class Clock(Protocol):
    """Where jobs are while they are in flight, and how long they take."""

    deadline: float  # τ, seconds a round may last
    now: float = 0.0  # seconds since the last merge
    began: float = 0.0  # when that was, in seconds since the run's start
    over: bool = False  # whether the run has used up its time

    @property
    def in_flight(self) -> tuple[Job, ...]:
        """Jobs that have not been answered, in the order in which they were handed out."""

    def __len__(self) -> int:
        """How many these are."""
        return len(self.in_flight)

    def time_for_work(self, client: ClientProfile, deadline: float | None = None) -> float:
        """Seconds of τ, or another one, that a client has for work; the rest is sending."""

    def send(self, jobs: Sequence[Job]) -> None:
        """Hand jobs out; if none and nobody works, time may pass until another can be asked."""

    def away(self) -> frozenset[ClientId]:
        """Who cannot be asked now; where nobody can and nobody works, time passes before."""
        return frozenset()

    def wait(self, alarm: float | None) -> tuple[Job, LocalUpdate | None] | None:
        """The next answer and its job, None for a lost one; None where alarm or end come before."""

    def happened(self) -> list[Event]:
        """What happened up to the last merge and was not told before, in order of time."""
        return []

    def restart(self, *, cancel: bool = False) -> list[tuple[Job, float]]:
        """A merge: time is 0 again. Jobs go on, or are dropped: which, and the seconds spent."""

    def expect(self, assignments: Sequence[Assignment]) -> None:
        """Tell who trains what will be asked later; it changes the time, never an answer."""
        return


class Presence:
    """Clients come and go: here for Exp(``here``) seconds, away for Exp(``away``), and so on.

    It begins here with probability here / (here + away). Spell k is drawn by the seed and k alone.
    """

    def __init__(self, sizes: ClientSizes, here: float, away: float, seed: int) -> None:
        self._sizes, self._seed = sizes, seed
        self._first = stream(seed, "presence").random(len(sizes)) < here / (here + away)
        # Mean times of even and of odd spells, of each client.
        self._means = np.where(self._first, [[here], [away]], [[away], [here]])
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
        return found, self.change(time) if absent.all() else None

    def change(self, time: float) -> float:
        """When the next client comes or goes, after a time that ``away`` was asked for."""
        return float(min(ends[ends > time].min() for ends in self._ends))

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


@dataclass(eq=False)
class VirtualClock(Clock):
    """Computed time: a job takes download + work / c + upload, and waits while its client is away.

    Jobs of one version are trained together when the first of them is due; a lost one is found out
    τ after it was sent, or at once where that was later.
    """

    executor: Executor
    deadline: float
    model_bytes: int = 0
    _: KW_ONLY
    presence: Presence | None = None
    dropout: float = 0.0  # probability to lose a job
    budget: float = math.inf  # seconds of the run
    promised: bool = False  # that the strategy keeps the deadline
    chained: bool = False  # whether answers go by one another: then all jobs are trained
    packed: float = 1.0  # bytes of an answer, in those that links are charged for (``compression``)
    # (base, answer) -> what is sent of it, when it is: who is cancelled before sends nothing
    sent: Callable[[Params, LocalUpdate], LocalUpdate] = lambda base, answer: answer
    _events: list[Event] = field(default_factory=list, init=False)
    _queue: list[Job] = field(default_factory=list, init=False)  # by arrival

    @property
    def in_flight(self) -> tuple[Job, ...]:
        """Those in the queue, each with its answer if that is known."""
        return tuple(sorted(self._queue, key=attrgetter("sequence")))

    def __len__(self) -> int:
        return len(self._queue)

    def time_for_work(self, client: ClientProfile, deadline: float | None = None) -> float:
        """The most seconds t with t + transfer <= τ, rounding included; 0 where there are none."""
        transfer, limit = client.transfer_seconds(self.model_bytes), deadline or self.deadline
        time = limit - transfer
        while time > 0 and time + transfer > limit:
            time = math.nextafter(time, 0.0)
        return max(0.0, time)

    def send(self, jobs: Sequence[Job]) -> None:
        """Hand jobs out now; those of an earlier process keep the time at which they arrive."""
        left = self.budget - self.began  # which a draw that asked clients may have used up
        self.over, self.now = self.over or self.now > left, min(self.now, left)
        working = {job.assignment.client_id for job in self._queue}
        if double := sorted(working & {job.assignment.client_id for job in jobs}):
            who = f"client {double[0]}, who is at work"
            raise BadOption(f"draw of a sampler must give clients that are idle, got {who}")
        for job in jobs:
            new = math.isnan(job.arrives)
            if not new and job.started > self.began:
                self._events.append(event("started", job.started, job.assignment))
            insort(self._queue, self._begin(job) if new else job, key=ARRIVAL)
        if self.presence is not None and not (self._queue or self.now):  # they had nothing to do
            self._pass(self.presence.change(self.began))

    def away(self) -> frozenset[ClientId]:
        """Who cannot be asked now; where nobody can and nobody works, time passes before."""
        if self.presence is None:
            return frozenset()
        found, back = self.presence.away(self.began + self.now)
        if back is not None and not self._queue:
            self._pass(back)
            found, _ = self.presence.away(self.began + self.now)
        return found

    def _pass(self, time: float) -> None:
        self.over = time > self.budget
        # Rounding must not make it earlier than that client is back.
        self.now = min(time + math.ulp(time), self.budget) - self.began

    def wait(self, alarm: float | None) -> tuple[Job, LocalUpdate | None] | None:
        """The next answer, a loss, or None where the ``alarm`` rings or time ends before it."""
        due = self._queue[0].arrives if self._queue else math.inf
        rings = math.inf if alarm is None else alarm
        left = self.budget - self.began
        self.over = min(due, rings) > left
        if self.over or rings < due:
            self.now = left if self.over else max(self.now, rings)
            return None
        first = self._queue[0]
        if first.lost is None and first.answer is None:
            self._train(first.assignment.base_version)
        self.now, job = due, self._queue.pop(0)
        told, time, update = job.assignment, self.began + due, job.answer
        if update is None:
            self._events.append(event("lost", time, told, seconds=job.lost, away=job.away))
            return job, None
        seconds = self._heard(job) if update.seconds is None else update.seconds
        kind = "late" if seconds > (job.deadline or self.deadline) else "done"
        sent = round(self._answer_bytes(job) * self.packed)
        more = {"bytes_up": sent, "work": self._work(job), "away": job.away}
        self._events.append(event(kind, time, told, **more))
        # What the server knows better than a client: how it was drawn, and where it began.
        version, update = told.base_version, self.sent(job.base, update)
        return job, replace(update, copies=job.copies, base_version=version, seconds=seconds)

    def happened(self) -> list[Event]:
        """What happened up to the last merge and was not told before, in order of time."""
        known = sorted(self._events, key=lambda one: one["time"])
        past = bisect_right(known, self.began, key=lambda one: one["time"])
        self._events = known[past:]
        return known[:past]

    def restart(self, *, cancel: bool = False) -> list[tuple[Job, float]]:
        """A merge: time begins at 0 again; jobs in flight go on, or are dropped."""
        end, out = self.now, self.in_flight
        self.began, self.now = self.began + end, 0.0
        if not cancel:
            later = (replace(job, arrives=job.arrives - end) for job in out)
            self._queue = sorted(later, key=ARRIVAL)
            return []
        self._queue = []
        ended = [event("cancelled", self.began, job.assignment) for job in out]
        # What they would have done later does not happen.
        self._events = [one for one in self._events if one["time"] <= self.began] + ended
        return [(job, max(0.0, end - (job.arrives - self._heard(job)))) for job in out]

    def expect(self, assignments: Sequence[Assignment]) -> None:
        """Tell who trains what will be asked later."""
        self.executor.expect(assignments)

    def _begin(self, job: Job) -> Job:
        """A job that goes out now: when it is heard of next, as an answer or as a loss."""
        told, profile, time = job.assignment, job.profile, self.began + self.now
        download, work = self.model_bytes / profile.download, self._work(job)
        seconds, lost = self._seconds(job), None
        if self.dropout:
            generator = stream(told.seed, *told.path("dropout"))
            if generator.random() < self.dropout:
                lost = seconds = download + generator.random() * work / profile.capability
        before = away = 0.0
        if self.presence is not None:
            before = self.presence.pause(told.client_id, time, download)
            away = self.presence.pause(told.client_id, time, seconds)
        known = {"work": work, "speed": profile.capability, "bytes_down": self.model_bytes}
        known |= {"download": download, "upload": self._answer_bytes(job) / profile.upload}
        known |= {"deadline": self.deadline, "promised": self.promised}
        self._events.append(event("sent", time, told, **known))
        started = time + download + before
        self._events.append(event("started", started, told))
        job = replace(job, sent=time, started=started, away=away, lost=lost, deadline=self.deadline)
        return replace(job, arrives=self.now + self._heard(job))

    def _heard(self, job: Job) -> float:
        """Seconds from sending a job to its answer, or to the notice that it is lost."""
        if job.lost is None:
            return self._seconds(job) + job.away
        return max(job.lost + job.away, job.deadline or self.deadline)

    def _work(self, job: Job) -> int:
        return job.assignment.plan.work(job.profile.num_samples)

    def _seconds(self, job: Job) -> float:
        return job.profile.seconds(self._work(job), self.model_bytes, self._answer_bytes(job))

    def _answer_bytes(self, job: Job) -> int:
        share = job.assignment.plan.trained_share
        return self.model_bytes if share == 1 else sent_bytes(job.base, share)

    def _train(self, version: int) -> None:
        """Those of a version whose answers come before the run's time ends, or are gone by."""
        left = math.inf if self.chained else self.budget - self.began
        own = [job for job in self.in_flight if job.assignment.base_version == version]
        jobs = [j for j in own if j.answer is None and j.lost is None and j.arrives <= left]
        updates = self.executor.run(jobs[0].base, [job.assignment for job in jobs])
        trained = {job.sequence: own for job, own in zip(jobs, updates, strict=True)}
        self._queue = [replace(j, answer=trained.get(j.sequence, j.answer)) for j in self._queue]
