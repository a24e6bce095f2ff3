"""What a deployment leaves behind: the simulator's records, and a line a round for who looks on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from logging import INFO
from pathlib import Path
from typing import Any

from flwr.app import MetricRecord
from flwr.supercore import log

from fedcore.flower.clock import Notes
from fedcore.records import ClientRecord, RoundRecord, RunKey
from fedcore.report.output import EXPERIMENT, OutputFolder
from fedcore.server.loop import Merged
from fedcore.types import Path as Way


class Dashboard:
    """Writes rounds down, in a folder where one is named, and into the log."""

    def __init__(
        self, out: Path | None, run: RunKey, experiment: Mapping[str, Any], done: int
    ) -> None:
        """Go on after ``done`` rounds; what the folder holds beyond them is trained again."""
        self._run, self._folder = run, None
        if out is None:
            return
        if (out / EXPERIMENT).exists():
            self._folder = OutputFolder.resume(out, experiment, [run])
            del self._folder.runs.get(run, [])[done:]
            self._folder.runs = {key: rounds for key, rounds in self._folder.runs.items() if rounds}
        else:
            self._folder = OutputFolder.create(out, experiment)
        self._folder.begin()

    def add(
        self,
        merged: Merged,
        notes: Notes,
        deadline: float,
        reason: str,
        metrics: MetricRecord | None,
        evaluation_seconds: float,
    ) -> None:
        """Write a round down; what nobody measured is None."""
        loss, accuracy = _number(metrics, "loss"), _number(metrics, "acc")
        record = RoundRecord(
            merged.state.version,
            merged.seconds,
            deadline,
            done(merged, notes),
            merged.rejected + notes.refused,
            None,
            None,
            loss,
            accuracy if accuracy is not None and 0 <= accuracy <= 1 else None,
            merged.seconds + evaluation_seconds,
            merged.training_seconds,
            evaluation_seconds=evaluation_seconds,
        )
        log(INFO, "%s", line(record, notes, reason))
        if self._folder is not None:
            self._folder.add(record, self._run)

    def finish(self) -> None:
        """Write the summary, where there is a folder and a round."""
        if self._folder is not None and self._folder.runs:
            self._folder.finish()


def done(merged: Merged, notes: Notes) -> tuple[ClientRecord, ...]:
    """Who did what: work and way as reported, and those who were asked and gave nothing."""
    reports = {client: list(found) for client, found in notes.answered.items()}
    records = []
    for record in merged.clients:
        if not (left := reports.get(record.client_id)):
            records.append(record)  # sat out
            continue
        report = left.pop(0)
        way = Way.CORESET if report.coreset_size and record.path is Way.FULL else record.path
        way = Way.PARTIAL if report.cut_short and way is Way.FULL else way
        records.append(replace(record, work=report.work, path=way))
    late = [
        ClientRecord(job.assignment.client_id, job.assignment.plan.path, job.copies, 0, had, None)
        for job, had in notes.late
    ]
    return (*records, *late)


def line(record: RoundRecord, notes: Notes, reason: str) -> str:
    """One round in one line."""
    late = {job.assignment.client_id for job, _ in notes.late}
    asked = sum(c.work > 0 for c in record.clients) + len(late) + len(notes.failed)
    timely = sum(c.work > 0 and c.seconds <= record.deadline for c in record.clients)
    did = [
        f"{c.client_id} {'late' if c.client_id in late else c.path} {c.work} in {c.seconds:.1f} s"
        for c in record.clients
    ]
    did += [f"{client} {why}" for client, why in notes.failed.items()]
    length = f"{record.seconds:.1f} s of {record.deadline:.1f} s ({reason})"
    return f"round {record.number}: {length}, {timely} of {asked} on time: {'; '.join(did)}"


def _number(metrics: MetricRecord | None, part: str) -> float | None:
    """The first metric with ``part`` in its name, which is all that Flower's apps agree on."""
    found = (v for k, v in (metrics or {}).items() if part in k and isinstance(v, int | float))
    return next(map(float, found), None)
