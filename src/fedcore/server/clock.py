"""Time as the server sees it: jobs go out, and what comes next is an answer or an alarm."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from fedcore.server.state import Job
from fedcore.task import sent_bytes
from fedcore.types import Assignment, ClientProfile, Executor, LocalUpdate


class Clock(Protocol):
    """Where jobs are while they are in flight, and how long they take."""

    deadline: float  # τ, seconds a round may last
    now: float  # seconds since the last merge

    @property
    def in_flight(self) -> tuple[Job, ...]:
        """Jobs that have not been answered, in the order in which they were handed out."""

    def __len__(self) -> int:
        """How many these are."""

    def time_for_work(self, client: ClientProfile) -> float:
        """Seconds of τ that a client has for its work; the rest is sending the model."""

    def send(self, jobs: Sequence[Job]) -> None:
        """Hand jobs out."""

    def wait(self, alarm: float | None) -> tuple[Job, LocalUpdate] | None:
        """The next answer and its job, or None where the ``alarm`` rings before it."""

    def restart(self, *, cancel: bool = False) -> list[tuple[Job, float]]:
        """A merge: time is 0 again. Jobs go on, or are dropped: which, and the seconds spent."""

    def expect(self, assignments: Sequence[Assignment]) -> None:
        """Tell who trains what will be asked later; it changes the time, never an answer."""


class VirtualClock:
    """Computed time: a job takes download + work / c + upload.

    Jobs of one version are trained together, side by side, when the first of them is due.
    """

    def __init__(self, executor: Executor, deadline: float, model_bytes: int = 0) -> None:
        """Bind who trains, τ, and how much is sent each way."""
        self.deadline = deadline
        self.now = 0.0
        self._executor = executor
        self._model_bytes = model_bytes
        self._queue: list[tuple[float, int, Job]] = []  # by arrival, then by order
        self._answers: dict[int, LocalUpdate] = {}  # of jobs that are trained and not due yet

    @property
    def in_flight(self) -> tuple[Job, ...]:
        """Those in the queue, each with its answer if that is known."""
        jobs = (replace(job, answer=self._answers.get(n)) for _, n, job in self._queue)
        return tuple(sorted(jobs, key=lambda job: job.sequence))

    def __len__(self) -> int:
        return len(self._queue)

    def time_for_work(self, client: ClientProfile) -> float:
        """The most seconds t with t + transfer <= τ, rounding included; 0 where there are none."""
        transfer = client.transfer_seconds(self._model_bytes)
        time = self.deadline - transfer
        while time > 0 and time + transfer > self.deadline:
            time = math.nextafter(time, 0.0)
        return max(0.0, time)

    def send(self, jobs: Sequence[Job]) -> None:
        """Hand jobs out now; those of an earlier process keep the time at which they arrive."""
        for job in jobs:
            at = self.now + self._seconds(job) if job.arrives is None else job.arrives
            heapq.heappush(self._queue, (at, job.sequence, replace(job, arrives=at)))
            if job.answer is not None:
                self._answers[job.sequence] = job.answer

    def wait(self, alarm: float | None) -> tuple[Job, LocalUpdate] | None:
        """The next answer, or None where the ``alarm`` rings before it."""
        if alarm is not None and (not self._queue or alarm < self._queue[0][0]):
            self.now = alarm
            return None
        job = self._queue[0][2]
        if job.sequence not in self._answers:
            self._train(job.assignment.base_version)
        self.now, sequence, _ = heapq.heappop(self._queue)
        update = self._answers.pop(sequence)
        # What the server knows better than a client: how it was drawn, and where it began.
        version = job.assignment.base_version
        seconds = self._seconds(job) if update.seconds is None else update.seconds
        return job, replace(update, copies=job.copies, base_version=version, seconds=seconds)

    def restart(self, *, cancel: bool = False) -> list[tuple[Job, float]]:
        """A merge: time begins at 0 again; jobs in flight go on, or are dropped."""
        dropped = sorted(self._queue, key=lambda entry: entry[1]) if cancel else []
        spent = [(job, self.now - (at - self._seconds(job))) for at, _, job in dropped]
        left = [] if cancel else [replace(j, arrives=at - self.now) for at, _, j in self._queue]
        answers = {} if cancel else self._answers
        self.now, self._queue, self._answers = 0.0, [], answers
        self.send(left)
        return spent

    def expect(self, assignments: Sequence[Assignment]) -> None:
        """Tell who trains what will be asked later."""
        self._executor.expect(assignments)

    def _seconds(self, job: Job) -> float:
        plan = job.assignment.plan
        share = plan.trained_share
        sent = self._model_bytes if share == 1 else sent_bytes(job.base, share)
        return job.profile.seconds(plan.work(job.profile.num_samples), self._model_bytes, sent)

    def _train(self, version: int) -> None:
        waiting = [job for job in self.in_flight if job.answer is None]
        jobs = [job for job in waiting if job.assignment.base_version == version]
        updates = self._executor.run(jobs[0].base, [job.assignment for job in jobs])
        self._answers.update({j.sequence: u for j, u in zip(jobs, updates, strict=True)})
