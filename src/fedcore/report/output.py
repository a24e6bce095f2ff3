"""The folder a job writes: rounds as they come, a checkpoint, and the summary at the end.

Randomness is named by round (``seeding``), so all that a run needs to go on is the server's state
after its last round.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcore.config import Experiment
from fedcore.errors import BadOption
from fedcore.history import summary
from fedcore.records import RoundRecord, RunKey, Snapshot
from fedcore.report import checkpoint
from fedcore.report.checkpoint import partial_of
from fedcore.report.records import Runs, read_runs, to_lines, to_row

ROUNDS, SUMMARY, EXPERIMENT = "rounds.jsonl", "summary.json", "experiment.json"
CHECKPOINT = "checkpoint.npz"
PICTURES = (
    *("loss.png", "accuracy_by_round.png", "accuracy_by_time.png"),
    *("round_lengths.png", "client_times.png"),
)
CHECKPOINT_EVERY = 5.0  # seconds
OF_A_MACHINE = ("device", "threads", "data_dir")  # options that belong to no job


class OutputFolder:
    """Writes one job's results; survives being interrupted.

    ``create`` and ``resume`` only look and refuse; ``begin`` is the first to write.
    """

    def __init__(self, path: Path, experiment: Mapping[str, Any], runs: Runs) -> None:
        self.path = path
        self.runs = runs
        self._experiment = dict(experiment)
        self._saved = time.monotonic()
        self._check = 0

    @classmethod
    def create(
        cls, path: Path, experiment: Mapping[str, Any], *, overwrite: bool = False
    ) -> OutputFolder:
        """A new job; an old one is replaced only on request, and nothing else with it."""
        try:
            if path.is_file():
                raise BadOption(f"out {str(path)!r} is a file; name a folder")
            content = {item.name for item in path.iterdir()} if path.exists() else set()
        except OSError as error:
            raise BadOption(f"out {str(path)!r} cannot be read: {error.strerror}") from None
        if content and EXPERIMENT not in content:
            raise BadOption(f"out {str(path)!r} exists and holds something else; name a new folder")
        if content and not overwrite:
            raise BadOption(
                f"out {str(path)!r} holds an earlier job; name a new folder, or add --resume to go "
                "on with it or --overwrite to replace it"
            )
        return cls(path, experiment, {})

    @classmethod
    def resume(
        cls, path: Path, experiment: Mapping[str, Any], runs: Sequence[RunKey]
    ) -> OutputFolder:
        """Go on in a folder that an interrupted job left, if it was the same job.

        Another machine may do so: with its own device, cores and place of the data. So may a later
        version: an option that the job does not name had the effect of its default. ``runs`` are
        those of the job, in their order.
        """
        before = json.loads(json.dumps(dataclasses.asdict(Experiment())))
        try:
            before.update(json.loads((path / EXPERIMENT).read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            raise BadOption(
                f"out {str(path)!r} holds no interrupted job; leave out --resume to start one"
            ) from None
        for name, value in json.loads(json.dumps(experiment)).items():
            if name not in OF_A_MACHINE and before.get(name) != value:
                raise BadOption(
                    f"{name} is {value!r} but the job in {str(path)!r} has {before.get(name)!r}; "
                    "resume with the same options"
                )
        return cls(path, experiment, read_runs(path / ROUNDS, runs, experiment["rounds"]))

    def begin(self) -> None:
        """Make the folder this job's: what an earlier one wrote goes, what a user put there stays.

        ``experiment.json`` stays until it is replaced, so that the folder is known throughout.
        """
        if self.runs:
            self._rewrite()  # a torn last line must not run into the next
            return
        try:
            # A link may lead to a folder that is not there yet.
            self.path = Path(os.path.realpath(self.path))
            self.path.mkdir(parents=True, exist_ok=True)
            for name in (ROUNDS, SUMMARY, CHECKPOINT, *PICTURES):
                (self.path / name).unlink(missing_ok=True)
            for name in (ROUNDS, SUMMARY, EXPERIMENT, CHECKPOINT):
                partial_of(self.path / name).unlink(missing_ok=True)
            _write(self.path / EXPERIMENT, json.dumps(self._experiment, indent=2) + "\n")
        except OSError as error:
            raise BadOption(f"out {str(self.path)!r} cannot be written: {error.strerror}") from None

    def position(self, run: RunKey, rounds: int) -> tuple[int, Snapshot | None]:
        """Rounds of ``run`` that are done, and the state after them; forgets what follows them.

        Rounds without a checkpoint behind them are trained again, to the same result.
        """
        done = len(self.runs.get(run, []))
        if done in (0, rounds):
            return done, None
        owner, number, snapshot = checkpoint.load(self.path / CHECKPOINT) or (None, 0, None)
        if owner != run or number > done:  # of another run, or of rounds whose lines are gone
            number, snapshot = 0, None
        del self.runs[run][number:]
        self._rewrite()
        return number, snapshot

    def add(self, record: RoundRecord, run: RunKey, snapshot: Callable[[], Snapshot]) -> None:
        """Write a round; now and then what ``snapshot`` makes too."""
        self.runs.setdefault(run, []).append(record)
        line, self._check = to_lines([to_row(run, record)], self._check)
        with (self.path / ROUNDS).open("a", encoding="utf-8") as file:
            file.write(line)
        if time.monotonic() - self._saved > CHECKPOINT_EVERY:
            checkpoint.save(self.path / CHECKPOINT, run, record.number, snapshot())
            self._saved = time.monotonic()

    def finish(self) -> dict[str, Any]:
        """Write the summary; the job is complete."""
        content = summary(self.runs, self._experiment)
        _write(self.path / SUMMARY, json.dumps(content, indent=2) + "\n")
        (self.path / CHECKPOINT).unlink(missing_ok=True)
        return content

    def _rewrite(self) -> None:
        rows = (to_row(run, record) for run, records in self.runs.items() for record in records)
        text, self._check = to_lines(rows)
        _write(self.path / ROUNDS, text)


def _write(path: Path, text: str) -> None:
    """Replace a file in one step, so that nobody ever sees half of it."""
    partial = partial_of(path)
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
