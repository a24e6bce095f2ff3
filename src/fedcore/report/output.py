"""The folder a job writes: rounds as they come, a checkpoint, and the summary at the end.

Randomness is named by round (``seeding``), so all that a run needs to go on is the model after
its last round. A checkpoint is that model in NumPy's format, read without pickle.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedcore.config import Experiment
from fedcore.errors import BadOption, BadRecord
from fedcore.records import RunKey
from fedcore.report.records import Row, group, read_rows, to_line
from fedcore.report.summary import summary
from fedcore.types import Params

ROUNDS, SUMMARY, EXPERIMENT = "rounds.jsonl", "summary.json", "experiment.json"
CHECKPOINT, CHECKPOINT_PARTIAL = "checkpoint.npz", "checkpoint.partial.npz"
PICTURES = (
    "loss.png",
    "accuracy_by_round.png",
    "accuracy_by_time.png",
    "round_lengths.png",
    "client_times.png",
)
CHECKPOINT_EVERY = 5.0  # seconds
OF_A_MACHINE = ("device", "threads", "data_dir")  # options that belong to no job


class OutputFolder:
    """Writes one job's results; survives being interrupted."""

    def __init__(self, path: Path, experiment: Mapping[str, Any], rows: list[Row]) -> None:
        """Use ``create`` or ``resume`` instead."""
        self.path = path
        self.rows = rows
        self._experiment = dict(experiment)
        self._saved = time.monotonic()

    @classmethod
    def create(
        cls, path: Path, experiment: Mapping[str, Any], *, overwrite: bool = False
    ) -> OutputFolder:
        """Start a new folder; an old job is replaced only on request, and nothing else with it."""
        check_free(path, overwrite=overwrite)
        try:
            path = Path(os.path.realpath(path))  # a link may lead to a folder that is not there yet
            path.mkdir(parents=True, exist_ok=True)
            _remove_results(path)
            _write(path / EXPERIMENT, json.dumps(experiment, indent=2) + "\n")
        except OSError as error:
            raise BadOption(f"out {str(path)!r} cannot be written: {error.strerror}") from None
        return cls(path, experiment, [])

    @classmethod
    def resume(cls, path: Path, experiment: Mapping[str, Any]) -> OutputFolder:
        """Go on in a folder that an interrupted job left, if it was the same job.

        Another machine may do so: with its own device, cores and place of the data. So may a later
        version: an option that the job does not name had the effect of its default.
        """
        try:
            before = {**_defaults(), **json.loads((path / EXPERIMENT).read_text("utf-8"))}
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
        rows = read_rows(path / ROUNDS) if (path / ROUNDS).exists() else []
        folder = cls(path, experiment, rows)
        folder._rewrite()  # a torn last line must not run into the next
        return folder

    def position(self, run: RunKey, rounds: int) -> tuple[int, Params | None]:
        """Rounds of ``run`` that are done, and the model after them; forgets what follows them.

        Rounds without a checkpoint behind them are trained again, to the same result.
        """
        done = len(group(self.rows).get(run, []))
        if done in (0, rounds):
            return done, None
        number, params = self._checkpoint(run)
        self.rows = [row for row in self.rows if _before(row, run, number)]
        self._rewrite()
        return number, params

    def add(self, row: Row, run: RunKey, params: Params) -> None:
        """Write a round; now and then the model too."""
        self.rows.append(row)
        with (self.path / ROUNDS).open("a", encoding="utf-8") as file:
            file.write(to_line(row))
        if time.monotonic() - self._saved > CHECKPOINT_EVERY:
            self._save(run, row["round"], params)

    def finish(self) -> dict[str, Any]:
        """Write the summary; the job is complete."""
        content = summary(self.rows, self._experiment)
        _write(self.path / SUMMARY, json.dumps(content, indent=2) + "\n")
        (self.path / CHECKPOINT).unlink(missing_ok=True)
        return content

    def _rewrite(self) -> None:
        _write(self.path / ROUNDS, "".join(map(to_line, self.rows)))

    def _save(self, run: RunKey, number: int, params: Params) -> None:
        arrays = {f"param/{name}": value.cpu().numpy() for name, value in params.items()}
        partial = self.path / CHECKPOINT_PARTIAL
        content: dict[str, Any] = {"run": json.dumps(_key(run)), "round": number, **arrays}
        np.savez(partial, **content)
        partial.replace(self.path / CHECKPOINT)
        self._saved = time.monotonic()

    def _checkpoint(self, run: RunKey) -> tuple[int, Params | None]:
        try:
            with np.load(self.path / CHECKPOINT, allow_pickle=False) as content:
                if json.loads(str(content["run"])) != _key(run):
                    return 0, None
                names = [name for name in content.files if name.startswith("param/")]
                params = {
                    name.removeprefix("param/"): torch.from_numpy(content[name]) for name in names
                }
                return int(content["round"]), params
        except FileNotFoundError:
            return 0, None
        except (OSError, ValueError, KeyError) as error:
            raise BadRecord(
                f"{str(self.path / CHECKPOINT)!r} is damaged ({error}); delete it and resume again"
            ) from None


def _defaults() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(Experiment())))
    return content


def check_free(path: Path, *, overwrite: bool) -> None:
    """Refuse a folder that holds anything, unless it is an old job that may be overwritten."""
    try:
        if path.exists() and not path.is_dir():
            raise BadOption(f"out {str(path)!r} is a file; name a folder")
        content = {item.name for item in path.iterdir()} if path.exists() else set()
    except OSError as error:
        raise BadOption(f"out {str(path)!r} cannot be read: {error.strerror}") from None
    if not content:
        return
    if EXPERIMENT not in content:
        raise BadOption(f"out {str(path)!r} exists and holds something else; name a new folder")
    if not overwrite:
        raise BadOption(
            f"out {str(path)!r} holds an earlier job; name a new folder, or add --resume to go on "
            "with it or --overwrite to replace it"
        )


def _remove_results(path: Path) -> None:
    """Remove what an earlier job wrote, and leave what its user put beside it.

    ``experiment.json`` stays until it is replaced, so that the folder is known as ours throughout.
    """
    names = (ROUNDS, SUMMARY, CHECKPOINT, CHECKPOINT_PARTIAL, *PICTURES)
    partial = (f"{name}.partial" for name in (ROUNDS, SUMMARY, EXPERIMENT))
    for name in (*names, *partial):
        (path / name).unlink(missing_ok=True)


def _before(row: Row, run: RunKey, number: int) -> bool:
    """Whether a row stays when ``run`` goes on after round ``number``."""
    same = all(row[name] == value for name, value in _key(run).items())
    return not same or row["round"] <= number


def _key(run: RunKey) -> dict[str, Any]:
    return {
        "benchmark": run.benchmark,
        "strategy": run.strategy,
        "stragglers": run.stragglers,
        "seed": run.seed,
    }


def _write(path: Path, text: str) -> None:
    """Replace a file in one step, so that nobody ever sees half of it."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
