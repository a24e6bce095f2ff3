"""What a deployment leaves behind: the simulator's records, and a line a round for who looks on."""

from __future__ import annotations

from dataclasses import replace
from logging import INFO
from pathlib import Path

from flwr.app import MetricRecord
from flwr.supercore import log

from fedcore.flower.clock import Notes
from fedcore.flower.options import Options
from fedcore.records import ClientRecord, RoundRecord, RunKey, Waste
from fedcore.report.output import EXPERIMENT, OutputFolder
from fedcore.server.loop import Merged
from fedcore.types import Path as Way


class Dashboard:
    """Writes rounds down, in a folder where one is named, and into the log."""

    def __init__(self, options: Options, run: RunKey, rounds: int, done: int) -> None:
        """Go on after ``done`` rounds; what the folder holds beyond them is trained again."""
        self._run, self._folder = run, None
        if options.out is None:
            return
        names = ("strategy", "selector", "selection", "seed", "stragglers")
        job = {"rounds": rounds, "epochs": options.local_epochs}
        job |= {name: getattr(options, name) for name in names}
        if (Path(options.out) / EXPERIMENT).exists():
            self._folder = OutputFolder.resume(Path(options.out), job, [run])
            if kept := self._folder.runs.pop(run, [])[:done]:
                self._folder.runs[run] = kept
        else:
            self._folder = OutputFolder.create(Path(options.out), job)
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
        accuracy = _number(metrics, "acc")
        record = RoundRecord(
            merged.state.version,
            merged.seconds,
            deadline,
            who_did_what(merged, notes),
            merged.rejected + notes.refused,
            None,
            None,
            _number(metrics, "loss"),
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


def who_did_what(merged: Merged, notes: Notes) -> tuple[ClientRecord, ...]:
    """Work and way of everybody as reported; whoever was late did nothing, in the time it had."""
    reports = {client: iter(found) for client, found in notes.answered.items()}
    records = []
    for told in merged.clients:
        records.append(replace(told, work=0) if told.wasted is Waste.CANCELLED else told)
        if (report := next(reports.get(told.client_id, iter(())), None)) is not None:
            shorter = Way.CORESET if report.coreset_size else Way.PARTIAL
            cut = told.path is Way.FULL and (report.coreset_size or report.cut_short)
            records[-1] = replace(told, work=report.work, path=shorter if cut else told.path)
    return tuple(records)


def line(record: RoundRecord, notes: Notes, reason: str) -> str:
    """One round in one line."""
    late = {c.client_id for c in record.clients if c.wasted is Waste.CANCELLED}
    asked = sum(c.work > 0 for c in record.clients) + len(late) + len(notes.failed)
    timely = sum(c.work > 0 and c.seconds <= record.deadline for c in record.clients)
    did = [
        f"{c.client_id} {'late' if c.client_id in late else c.path} {c.work} in {c.seconds:.1f} s"
        for c in record.clients
    ]
    did += [f"{client} {why}" for client, why in notes.failed]
    length = f"{record.seconds:.1f} s of {record.deadline:.1f} s ({reason})"
    return f"round {record.number}: {length}, {timely} of {asked} on time: {'; '.join(did)}"


def _number(metrics: MetricRecord | None, part: str) -> float | None:
    """The first metric with ``part`` in its name, which is all that Flower's apps agree on."""
    found = (v for k, v in (metrics or {}).items() if part in k and isinstance(v, int | float))
    return next(map(float, found), None)
