"""The folder a job writes: rounds as they come, a checkpoint, and the summary at the end.

All that a run needs to go on is the server's state after its last round. Models and checkpoints are
safetensors with a checksum; of a checkpoint, what is no tensor is JSON in the header.
"""

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from fedcore.config import Experiment, Options
from fedcore.errors import BadOption, BadRecord
from fedcore.records import RoundRecord, RunKey, Snapshot
from fedcore.report.records import MEASURED, Runs, is_over, read_runs, run_of, to_lines, to_row
from fedcore.report.summary import summary
from fedcore.types import Params
from fedcore.values import MANY

Save = Callable[[], Snapshot]
ROUNDS, SUMMARY, EXPERIMENT = "rounds.jsonl", "summary.json", "experiment.json"
log = logging.getLogger(__name__)

CHECKPOINT, EVENTS, PAGE = "checkpoint.safetensors", "events.jsonl", "report.html"
OLD = "checkpoint.npz"  # what earlier versions left
_pictures = "loss accuracy_by_round accuracy_by_time round_lengths client_times timeline"
PICTURES = tuple(f"{name}.png" for name in _pictures.split())
CHECKPOINT_EVERY = 5.0  # seconds
CHECKPOINT_TAKES = 0.5  # seconds at most; pauses of those that take longer are longer by as much
TYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
TYPES |= {torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8"}
TYPES |= {torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2"}
TYPES |= {torch.uint8: "U8", torch.bool: "BOOL"}
NONE: Params = {}
OF_A_MACHINE = ("device", "threads", "data_dir")  # options that belong to no job


class OutputFolder:
    """Writes one job's results; ``create`` and ``resume`` only look, ``begin`` writes first."""

    every_round = False  # a checkpoint, not only now and then
    environment: Mapping[str, str] | None = None  # of who trained, where it is not this process

    def __init__(self, path: Path, experiment: Options, runs: Runs) -> None:
        self.path, self.runs = path, runs
        self._experiment = dict(experiment)
        self._saved, self._took, self._check = time.monotonic(), 0.0, 0

    @classmethod
    def create(cls, path: Path, experiment: Options, *, overwrite: bool = False) -> Self:
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
            ways = "add --resume to go on with it or --overwrite to replace it"
            raise BadOption(f"out {str(path)!r} holds an earlier job; name a new folder, or {ways}")
        return cls(path, experiment, {})

    @classmethod
    def resume(cls, path: Path, experiment: Options, runs: Sequence[RunKey]) -> Self:
        """Go on in a folder that the same job, of these ``runs``, left, on whatever machine."""
        before = json.loads(json.dumps(asdict(Experiment())))
        try:
            before.update(json.loads((path / EXPERIMENT).read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            what = f"out {str(path)!r} holds no interrupted job; leave out --resume"
            raise BadOption(what) from None
        for name, value in json.loads(json.dumps(experiment)).items():
            if name not in OF_A_MACHINE and before.get(name) != value:
                what = f"{name} is {value!r} but the job in {str(path)!r} has {before.get(name)!r}"
                raise BadOption(f"{what}; resume with the same options")
        if (old := path / OLD).exists():
            log.warning("%s is of an earlier version: the run it belongs to begins again", old)
        most = MANY if experiment.get("time_budget") else experiment.get("rounds", MANY)
        return cls(path, experiment, read_runs(path / ROUNDS, runs, most))

    def begin(self) -> None:
        """Make the folder this job's: what a job wrote goes, what a user put there stays."""
        if self.runs:
            self._rewrite()  # a torn last line must not run into the next
            return
        try:
            # A link may lead to a folder that is not there yet.
            self.path = Path(os.path.realpath(self.path))
            self.path.mkdir(parents=True, exist_ok=True)
            models = [path.name for path in self.path.glob("model-*-seed-*.safetensors")]
            more = ("rounds.csv", "provenance.jsonl", *PICTURES, *models)
            for name in (ROUNDS, EVENTS, SUMMARY, CHECKPOINT, OLD, PAGE, *more):
                (self.path / name).unlink(missing_ok=True)
            for name in (ROUNDS, EVENTS, SUMMARY, EXPERIMENT, CHECKPOINT):
                partial_of(self.path / name).unlink(missing_ok=True)
            # It stays until it is replaced, so that the folder is known throughout.
            _write(self.path / EXPERIMENT, json.dumps(self._experiment, indent=2) + "\n")
        except OSError as error:
            raise BadOption(f"out {str(self.path)!r} cannot be written: {error.strerror}") from None

    def position(self, run: RunKey, rounds: int) -> tuple[int, Snapshot | None]:
        """Rounds of ``run`` that a checkpoint is behind, and its state; forgets later ones."""
        done = len(self.runs.get(run, []))
        if not done or is_over(self.runs[run], rounds):
            return done, None
        owner, number, snapshot = load_checkpoint(self.path / CHECKPOINT) or (None, 0, None)
        if owner != run or number > done:  # of another run, or of rounds whose lines are gone
            number, snapshot = 0, None
        del self.runs[run][number:]
        self._rewrite()
        return number, snapshot

    def add(
        self, record: RoundRecord, run: RunKey, snapshot: Save | None = None, model: Params = NONE
    ) -> None:
        """Write a round; now and then what ``snapshot`` makes too, and a last round's model."""
        if record.ending is not None and model:  # before the line that ends the run
            save_model(self.path / model_name(run), model, asdict(run) | {"round": record.number})
        (self.path / SUMMARY).unlink(missing_ok=True)  # of a job that was complete before
        row = to_row(run, record)
        known = {name: row[name] for name in MEASURED} | {"metrics": row.get("metrics", {})}
        self.runs.setdefault(run, []).append(replace(record, events=(), **known))  # as read again
        line, self._check = to_lines([row], self._check)
        whose = {**asdict(run), "round": record.number}
        events = "".join(json.dumps({**whose, **one}) + "\n" for one in record.events)
        # Events first: of a round that is on disk all are, and others are dropped on resuming.
        for name, text in ((EVENTS, events), (ROUNDS, line)):
            with (self.path / name).open("a", encoding="utf-8") as file:
                file.write(text)
        # One with hundreds of models in flight takes seconds itself.
        pause = CHECKPOINT_EVERY * max(1.0, self._took / CHECKPOINT_TAKES)
        began = time.monotonic()
        if snapshot is not None and (self.every_round or began - self._saved > pause):
            save_checkpoint(self.path / CHECKPOINT, run, record.number, snapshot())
            self._saved = time.monotonic()
            self._took = self._saved - began

    def finish(self, **more: Any) -> dict[str, Any]:
        """Write the summary, and what else is known; the job is complete."""
        content = summary(self.runs, self._experiment) | more
        with suppress(OSError, ValueError, LookupError, TypeError):  # where nothing was trained
            self.environment = json.loads((self.path / SUMMARY).read_text("utf-8"))["environment"]
        content["environment"] = self.environment or content["environment"]
        _write(self.path / SUMMARY, json.dumps(content, indent=2) + "\n")
        path = self.path / CHECKPOINT
        for left in (path, partial_of(path), self.path / OLD):
            left.unlink(missing_ok=True)
        return content

    def _rewrite(self) -> None:
        text, self._check = to_lines(to_row(run, r) for run, own in self.runs.items() for r in own)
        _write(self.path / ROUNDS, text)
        with suppress(FileNotFoundError):  # as in folders of an earlier version
            text = (self.path / EVENTS).read_text("utf-8", errors="replace")
            _write(self.path / EVENTS, "".join(filter(self._is_known, text.splitlines(True))))

    def _is_known(self, line: str) -> bool:
        """Whether an event is of a round that is kept; a torn one is not."""
        with suppress(ValueError, LookupError, TypeError):
            row = json.loads(line)
            return int(row["round"]) <= len(self.runs.get(run_of(row), []))
        return False


def partial_of(path: Path) -> Path:
    """Where a file is written before it takes its place, so that nobody ever sees half of it."""
    return path.with_name(f"{path.stem}.partial{path.suffix}")


def _write(path: Path, text: str) -> None:
    partial_of(path).write_text(text, encoding="utf-8")
    partial_of(path).replace(path)


def save_model(path: Path, params: Params, about: Options) -> None:
    """Replace the file at ``path`` in one step: 8 bytes of length, a header of JSON, the data."""
    header: dict[str, Any] = {"__metadata__": {key: str(value) for key, value in about.items()}}
    content, length = list[memoryview](), 0
    for name, value in params.items():
        data = value.detach().cpu().reshape(-1).view(torch.uint8).numpy().data
        ends, length = [length, length + len(data)], length + len(data)
        header[name] = {"dtype": TYPES[value.dtype], "shape": [*value.shape], "data_offsets": ends}
        content.append(data)
    header["__metadata__"]["check"] = _digest(header, *content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with partial_of(path).open("wb") as file:
        file.writelines([len(text).to_bytes(8, "little"), text, *content])
    partial_of(path).replace(path)


def load_model(path: Path) -> dict[str, Tensor]:
    """The parameters in a safetensors file by name."""
    try:
        return _read(path)[0]
    except Exception as error:  # whatever says what to a file that is missing, or not one of those
        raise BadRecord(f"{str(path)!r} cannot be read ({error}); train that run again") from None


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors by name, and what is said about them; models of others have no checksum."""
    content = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8:start]), torch.frombuffer(content, dtype=torch.uint8)
    about = header.get("__metadata__", {})
    check = about.pop("check", None)
    if check != _digest(header, memoryview(content)[start:]) and (check or "values" in about):
        raise ValueError("its content is not what was written")
    kinds, tensors = {name: kind for kind, name in TYPES.items()}, {}
    for name in (name for name in header if name != "__metadata__"):
        first, end = (start + offset for offset in header[name]["data_offsets"])
        own = data[first:end].clone().view(kinds[header[name]["dtype"]])
        tensors[name] = own.reshape(header[name]["shape"])
    return tensors, about


def _digest(header: Options, *content: memoryview) -> str:
    found = hashlib.blake2b(json.dumps(header).encode(), digest_size=16)
    for piece in content:
        found.update(piece)
    return found.hexdigest()


def model_name(run: RunKey) -> str:
    """The file of a run's last model."""
    return f"model-{run.name}.safetensors"


def save_checkpoint(path: Path, run: RunKey, number: int, snapshot: Snapshot) -> None:
    """Replace the checkpoint at ``path`` in one step."""
    rest = {"run": json.dumps(asdict(run)), "values": json.dumps(dict(snapshot.meta))}
    save_model(path, snapshot.tensors, {**rest, "round": number})


def load_checkpoint(path: Path) -> tuple[RunKey, int, Snapshot] | None:
    """Which run, how many of its rounds, and the state after them; None without a checkpoint."""
    try:
        tensors, rest = _read(path)
        run = RunKey(**json.loads(rest["run"]))
        return run, int(rest["round"]), Snapshot(tensors, json.loads(rest["values"]))
    except FileNotFoundError:
        return None
    except Exception as error:  # whatever is said to a file that is not one of ours
        raise BadRecord(f"{str(path)!r} is damaged ({error}); delete it and resume again") from None
