"""Whether what a job wrote down can be true: its events, one by one, and beside its rounds."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedcore.errors import BadRecord
from fedcore.records import Event, RunKey
from fedcore.report.output import EVENTS, ROUNDS
from fedcore.report.records import run_of

ANSWERS, WASTED = ("done", "late"), {"lost": "lost", "cancelled": "cancelled"}


@dataclass(slots=True)
class _Job:
    sent: Event
    started: float = math.inf
    ended: Event | None = None
    spent: float = 0.0  # seconds until then
    merged: bool = False


@dataclass(slots=True)
class _Run:
    """What is known of a run after some of its events, then after some of its rounds."""

    jobs: dict[tuple[int, ...], _Job] = field(default_factory=dict)
    working: dict[int, _Job] = field(default_factory=dict)  # by client
    rounds: dict[int, list[tuple[Event, _Job]]] = field(default_factory=lambda: defaultdict(list))
    now: float = 0.0  # the last event
    passed: float = 0.0  # deadlines until the end of the last round
    unit: float = 0.0  # seconds of the run's deadline; 0: not known yet

    def take(self, event: Event) -> Iterator[str]:
        """What is wrong with an event that follows those taken before."""
        kind, client, time = event["event"], event["client"], event["time"]
        if not _in_order(self.now, time):
            yield f"it happens at {time:g}, before the one above it"
        self.now = time
        key = (client, event["base_version"], event["repeat"])
        if kind == "sent":
            if client in self.working:
                yield f"client {client} is sent a job while it works on another"
            if key in self.jobs:
                yield f"client {client} is sent the same job twice"
            self.jobs[key] = self.working[client] = _Job(event)
        if (job := self.jobs.get(key)) is None:
            yield f"client {client} was never sent what is {kind} here"
            return
        self.rounds[event["round"]].append((event, job))
        if kind == "started":
            job.started = time
        elif kind == "merged":
            if job.ended is None or job.ended["event"] not in ANSWERS:
                yield f"client {client} has not answered what is merged here"
            if job.merged:
                yield f"an answer of client {client} is merged twice"
            job.merged = True
            if event["staleness"] != event["round"] - 1 - event["base_version"]:
                yield f"client {client} cannot be {event['staleness']} merges stale"
        elif kind != "sent":
            if job.ended is not None:
                yield f"client {client} ends a job that was over"
            worked = event["seconds"] + event["away"] if kind == "lost" else None
            job.spent = time - job.sent["time"] if worked is None else worked
            job.ended = event
            self.working.pop(client, None)
            yield from () if kind == "cancelled" else _wrong_times(job, event)

    def compare(self, row: dict[str, Any]) -> Iterator[str]:
        """In what a line of rounds.jsonl differs from the events of its round."""
        events = self.rounds.pop(row["round"], [])
        own = row.get("deadline", 1.0)  # of the round, in deadlines of the run
        units = {event["deadline"] / own for event, _ in events if event["event"] == "sent"}
        if not all(math.isclose(unit, self.unit or unit) for unit in units):
            yield f"its deadline is {own:g}, but its jobs have another"
        self.unit = deadline = self.unit or next(iter(units), 0.0)  # before anybody works: any
        self.passed += row["round_time"]
        end = self.passed * deadline
        for event, _ in events:
            last = end if event["event"] == "merged" else 0.0
            if not (_in_order(last, event["time"]) and _in_order(event["time"], end)):
                what = f"a client is {event['event']} at {event['time']:g}"
                yield f"the round ends at {end:g}, but {what}"
        ends = [(event, job) for event, job in events if event is job.ended]
        ended = ((event, job, WASTED.get(event["event"], "")) for event, job in ends)
        found = sorted((e["client"], j.sent["work"], why, j.spent) for e, j, why in ended)
        asked = ((c, WASTED.get(c.get("wasted"), "")) for c in row["clients"] if c["work"])
        listed = sorted((c["client"], c["work"], why, c["time"] * deadline) for c, why in asked)
        pairs = zip(found, listed, strict=False)  # of times that are differences of rounded ones
        same = (a[:3] == b[:3] and math.isclose(a[3], b[3], abs_tol=1e-12 * end) for a, b in pairs)
        if len(found) != len(listed) or not all(same):
            yield "its clients are not those of its events, nor are their work and times"
        merged = sum(event["event"] == "merged" for event, _ in events)
        answers = sum(event["event"] in ANSWERS for event, _ in ends)
        if merged != (0 if "cut" in row else answers - row["rejected"]):
            yield f"of {answers} answers {merged} are merged and {row['rejected']} rejected"


def verify(folder: Path) -> tuple[list[str], int]:
    """What is wrong with the events and rounds of a job, a sentence each; and how many events."""
    runs: dict[RunKey, _Run] = defaultdict(_Run)
    wrong, events = [], 0
    for name, look in ((EVENTS, _Run.take), (ROUNDS, _Run.compare)):
        try:
            lines = (folder / name).read_text("utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise BadRecord(f"{str(folder / name)!r} cannot be read: {error}") from None
        events = events or len(lines)
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                found = list(look(runs[run_of(row)], row))
            except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
                found = ["it is not what belongs there"]
            wrong += [f"{name}, line {number}: {sentence}" for sentence in found]
    left = [(run, number) for run in runs.values() for number in run.rounds]
    wrong += [f"{EVENTS}: its round {number} is not in {ROUNDS}" for run, number in left]
    return wrong, events


def _wrong_times(job: _Job, event: Event) -> Iterator[str]:
    """Download, work / c, upload and the time away must add up, and keep a deadline promised."""
    sent, kind, away = job.sent, event["event"], event["away"]
    who, begun = f"client {event['client']}", sent["time"] + sent["download"]
    if not (_in_order(begun, job.started) and _in_order(job.started, begun + away)):
        yield f"{who} started at {job.started:g}, and had the model at {begun:g}"
    seconds = sent["work"] / sent["speed"] + (sent["download"] + sent["upload"])
    due = sent["time"] + seconds + away
    if kind == "lost":
        due = sent["time"] + max(event["seconds"] + away, sent["deadline"])
    elif event["work"] != sent["work"]:
        yield f"{who} did {event['work']} of the {sent['work']} samples that it was sent"
    if not math.isclose(event["time"], due):
        yield f"{who} is {kind} at {event['time']:g}, and was due at {due:g}"
    if kind in ANSWERS and (kind == "late") != (seconds + away > sent["deadline"]):
        yield f"{who} is {kind} after {seconds + away:g} seconds of {sent['deadline']:g}"
    if sent["promised"] and seconds > sent["deadline"]:
        yield f"{who} works {seconds:g} seconds, but was promised to keep {sent['deadline']:g}"


def _in_order(before: float, after: float) -> bool:
    """Whether one time is not after another, but for rounding."""
    return before <= after or math.isclose(before, after)
