"""The server: hands out jobs, takes answers as they come, merges when the strategy says so.

It knows no rounds. A synchronous round is what a strategy's pace makes of it: nobody is handed
anything new until everybody has answered (Algorithm 1, lines 3 to 15).
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import torch

from fedcore.errors import BadOption
from fedcore.records import ClientRecord, Event, Waste, event
from fedcore.server.clock import Clock
from fedcore.server.controller import Controller, begin, learn, recall
from fedcore.server.method import Action, Cohort, Draw, Plans, Sampler, Situation, Strategy
from fedcore.server.state import Job, ServerState
from fedcore.sources.clients import ClientSizes
from fedcore.types import Assignment, ClientId, ClientProfile, LocalPlan, LocalUpdate, Params, Way

log = logging.getLogger(__name__)
Loss = Callable[[Params, ClientId], float]  # mean loss of a model on a client's samples
FUTILE = 100  # jobs in a row that came to nothing, after which nobody is replaced before a merge
ROUNDING = 1e-12  # of a deadline, so that a client whose own time it is does not miss it
DOUBLINGS = 64  # of a deadline at most: a strategy may have nobody work, whatever it is


class Merged(NamedTuple):
    """What happened from one merge to the next."""

    state: ServerState
    seconds: float
    clients: tuple[ClientRecord, ...]  # who was drawn and sat out, and who answered
    rejected: int  # answers that could not be merged
    training_seconds: float  # of real time, until all answers were there
    events: tuple[Event, ...] = ()
    cut: bool = False  # the run's time ended before a merge: the model is the one before


@dataclass(slots=True)
class Server:
    """One run of a strategy; everything that it needs is handed in."""

    strategy: Strategy
    sampler: Sampler
    clock: Clock
    profiles: Mapping[ClientId, ClientProfile]
    sizes: ClientSizes
    epochs: int  # E, of every client
    clients_per_round: int  # K, jobs that are out at most unless the strategy says otherwise
    seed: int
    merges: int
    ahead: int = 0  # merges whose cohorts are announced to who trains before their time comes
    controller: Controller | None = None  # None: the clock's deadline stays as it is
    loss_of: Loss | None = None  # None: clients cannot be asked for it
    reason: str = field(default="", init=False)  # why it decided so
    _seen: Params = field(default_factory=dict, init=False)  # by it, this round included
    _memory: Params = field(default_factory=dict, init=False)  # the sampler's, likewise
    _handed_out: int = field(default=0, init=False)
    _draws: int = field(default=0, init=False)  # from the present version
    _starts: Counter[ClientId] = field(default_factory=Counter, init=False)  # likewise, by client
    _drawn_ahead: dict[int, Cohort] = field(default_factory=dict, init=False)
    _plans: Plans = field(default_factory=dict, init=False)  # of those drawn together

    def assign(
        self,
        client: ClientId,
        version: int,
        repeat: int = 0,
        shift: Params | None = None,
        deadline: float | None = None,
    ) -> tuple[Assignment, ClientProfile]:
        """What a client is told that starts from a version, and who it is; None: by τ as it is."""
        profile = self.profiles[client]
        ask = self._plans.get(client, self.strategy.plan)
        plan = checked(ask(profile, self.clock.time_for_work(profile, deadline), self.epochs))
        return Assignment(client, plan, version, self.seed, repeat, shift), profile

    def run(self, state: ServerState) -> Iterator[Merged]:
        """Merge after merge, from ``state`` on."""
        self.clock.began = state.time
        if "rounds" in state.seen:
            self.clock.deadline = float(state.seen["rounds"][-1, 0])
        if state.jobs:
            self.clock.send(state.jobs)
        self._handed_out = len(state.jobs)
        while state.version < self.merges and not self.clock.over:
            yield (merged := self._until_merge(state))
            state = merged.state

    def _until_merge(self, state: ServerState) -> Merged:
        pace, clock = self.strategy.pace, self.clock
        merging, self._memory = self.strategy.merge(state), state.sampler
        answers, rejected, futile, rang, trained = 0, 0, 0, False, 0.0
        taken: list[Assignment] = []
        self._draws, self._starts, self._seen = 0, Counter(), state.seen
        self._look_ahead(state.version)
        records = self._hand_out(state)
        alarm = None if pace.alarm is None else pace.alarm * clock.deadline
        while (action := pace.decide(Situation(answers, len(clock), rang))) is Action.WAIT:
            if pace.refill_at_once and futile < FUTILE:
                records += self._hand_out(state)
            if len(clock) == 0:  # nothing will happen any more
                break
            began = time.perf_counter()
            arrival = clock.wait(None if rang else alarm)
            if clock.over:
                break
            if arrival is None:
                rang = True
                continue
            (job, update), futile = arrival, futile + 1
            if update is None:
                records.append(_wasted(job, (job.lost or 0.0) + job.away, state, Waste.LOST))
                continue
            sound = is_sound(update)  # which waits for the device
            trained += time.perf_counter() - began
            record = _record(job, update, state.version, None if sound else Waste.REJECTED)
            ended = None if clock.now == update.seconds else clock.now
            records.append((job.sequence, replace(record, ended=ended)))
            if sound:
                answers, futile = answers + update.copies, 0
                taken.append(job.assignment)
                merging.add(update, job.base)
                self._observe(update)
                self._seen = self._seen and learn(self._seen, self.sizes, job, update)
            else:
                rejected += 1
        seconds, cut = clock.now, clock.over
        dropped = clock.restart(cancel=cut or action is Action.MERGE_AND_CANCEL)
        records += [_wasted(job, spent, state, Waste.CANCELLED) for job, spent in dropped]
        kept = cut or answers < pace.quorum  # the model stays as it is
        new = replace(state if kept else merging.finish(), version=state.version + 1)
        new = replace(new, sampler=self._memory, seen=self._seen)
        new = replace(new, time=clock.began, jobs=clock.in_flight)
        events = clock.happened()
        for told in () if cut else taken:
            stale = state.version - told.base_version
            events.append(event("merged", clock.began, told, staleness=stale))
        ordered = tuple(record for _, record in sorted(records, key=lambda pair: pair[0]))
        return Merged(new, seconds, ordered, rejected, trained, tuple(events), cut)

    def _observe(self, update: LocalUpdate) -> None:
        if self.sampler.observe is not None:
            self._memory = self.sampler.observe(self._memory, update, self.sizes)

    def _hand_out(self, state: ServerState) -> list[tuple[int, ClientRecord]]:
        """Draw as many clients as may start; gives the records of those who sit out."""
        away, out = self.clock.away(), self.clock.in_flight
        most = self.strategy.pace.concurrency or self.clients_per_round
        room = most - sum(job.copies for job in out)
        if room <= 0:
            return []
        cohort = self._drawn_ahead.pop(state.version, None)
        if cohort is None:
            busy = away.union(job.assignment.client_id for job in out)
            known: dict[str, Any] = {"again": self._draws, "busy": busy, "memory": self._memory}
            if self.loss_of is not None and not out:  # time that passes would be others' too
                known["ask"] = partial(self._asked, self.loss_of, state.params)
            cohort = self._draw(room, state.version, **known)
        jobs, sat_out = [], []
        if self.strategy.by_cohort is not None:
            own = {client: self.profiles[client] for client in cohort}
            self._plans = self.strategy.by_cohort(state, own)
        if self.controller is not None and cohort and self._draws == 0:
            self._set_deadline(self.controller, state, cohort)
        self._draws += 1
        for sequence, (client, copies) in enumerate(cohort.items(), self._handed_out):
            shift = self.strategy.shift and self.strategy.shift(state, client)
            told, profile = self.assign(client, state.version, self._starts[client], shift)
            self._starts[client] += 1
            job = Job(told, profile, copies, state.params, sequence)
            if told.plan.phases:
                jobs.append(job)
            else:
                size = profile.num_samples
                nothing = LocalUpdate(client, {}, size, copies, state.version, seconds=0.0)
                self._observe(nothing)  # or a sampler that waits for an answer would draw it again
                sat_out.append((sequence, _record(job, nothing, state.version)))
        self._handed_out += len(cohort)
        self.clock.send(jobs)
        return sat_out

    def _set_deadline(self, controller: Controller, state: ServerState, cohort: Cohort) -> None:
        """Before a round: as the controller says, or longer, until somebody drawn can work."""
        clock, before, number = self.clock, self.clock.deadline, state.version + 1
        seen = recall(state.seen, self.sizes, cohort, self.epochs)
        seconds, self.reason = controller.decide(seen)
        times = DOUBLINGS if controller.bounded else 1
        if controller.bounded and len(seen.samples):
            near = abs(seconds / before - 1) <= 2 * ROUNDING
            seconds = before if near else seconds * (1 + ROUNDING)
        for clock.deadline in (seconds * 2**n for n in range(times)):
            if any(self.assign(client, state.version)[0].plan.phases for client in cohort):
                break
        else:
            clock.deadline = seconds
        if clock.deadline > seconds:
            self.reason += f"; doubled from {seconds:.4g} s until somebody drawn can work"
        if clock.deadline != before:
            log.info("round %d may last %.4g s: %s", number, clock.deadline, self.reason)
        self._seen = begin(self._seen, clock.deadline)

    def _draw(self, count: int, version: int, **known: Any) -> Cohort:
        own = self.seed, self.sizes, self.profiles
        cohort = self.sampler.draw(Draw(count, version, *own, **known))
        pairs = cohort.items() if isinstance(cohort, Mapping) else [(None, 0)]
        if not all(type(n) is int and n > 0 and one in self.profiles for one, n in pairs):
            must = "draw of a sampler must give clients that there are, each with an int of copies"
            raise BadOption(f"{must}, got {cohort!r}; Draw.cohort makes that of places")
        return cohort

    def _asked(
        self, loss_of: Loss, params: Params, clients: Sequence[ClientId], seconds: float
    ) -> list[float]:
        self.clock.now += seconds
        return [loss_of(params, client) for client in clients]

    def _look_ahead(self, version: int) -> None:
        """Announce cohorts, this one first, where no answer and no job in flight changes them."""
        fixed = self.sampler.observe is None and self.strategy.pace.synchronous
        if not self.ahead or not fixed or self.strategy.by_cohort is not None or self.controller:
            return
        for later in range(version, min(version + self.ahead + 1, self.merges)):
            if later in self._drawn_ahead:
                continue
            most = self.strategy.pace.concurrency or self.clients_per_round
            cohort = self._drawn_ahead[later] = self._draw(most, later)
            # What cannot be planned is told of when its time comes, after the merges before it.
            with suppress(Exception):
                told = [self.assign(client, later)[0] for client in cohort]
                self.clock.expect([one for one in told if one.plan.phases])


def checked(plan: LocalPlan) -> LocalPlan:
    """A strategy's plan, if it can be followed; strategies may come from anybody."""
    if not isinstance(plan, LocalPlan):
        raise BadOption(f"plan of a strategy must return a LocalPlan, got {type(plan).__name__}")
    if plan.path not in list(Way):
        raise BadOption(f"path of a plan must be one of {', '.join(Way)}, got {plan.path!r}")
    if not 0 < (share := plan.trained_share) <= 1:
        raise BadOption(f"trained_share of a plan must be above 0 and at most 1, got {share}")
    for phase in plan.phases:
        if not isinstance(phase.epochs, int) or phase.epochs < 1:
            what = f"a phase of a plan must have an int of 1 epoch or more, got {phase.epochs!r}"
            raise BadOption(f"{what}; a client with nothing to do gets SIT_OUT")
        if phase.coreset is not None and phase.coreset.budget < 1:
            what = f"a coreset of a plan must have 1 sample or more, got {phase.coreset.budget}"
            raise BadOption(f"{what}; leave out the phase, or SIT_OUT")
    return plan


def is_sound(update: LocalUpdate) -> bool:
    """Whether an answer can be averaged: one NaN would end the training for all."""
    every = torch.cat([value.flatten() for value in update.params.values()])
    return bool(torch.isfinite(every).all())  # in one piece: on a GPU a launch costs most


def _wasted(job: Job, seconds: float, state: ServerState, why: Waste) -> tuple[int, ClientRecord]:
    nothing = LocalUpdate(job.assignment.client_id, {}, 0, seconds=seconds)
    return job.sequence, _record(job, nothing, state.version, why)


def _record(job: Job, answer: LocalUpdate, version: int, why: Waste | None = None) -> ClientRecord:
    told, own = job.assignment, answer.params
    return ClientRecord(
        client_id=told.client_id,
        path=answer.path or told.plan.path,
        copies=job.copies,
        work=told.plan.work(job.profile.num_samples) if answer.work is None else answer.work,
        seconds=answer.seconds or 0.0,
        coreset_budget=next((p.coreset.budget for p in told.plan.phases if p.coreset), None),
        coreset_size=answer.coreset_size,
        gradient_error=answer.gradient_error,
        full_gradient_error=answer.full_gradient_error,
        fell_back=answer.fell_back,
        wasted=why,
        staleness=version - told.base_version,
        sent=sum(v.nbytes for v in own.values()) if 0 < len(own) < len(job.base) else 0,
    )
