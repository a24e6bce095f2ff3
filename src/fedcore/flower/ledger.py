"""What a deployment leaves behind: a line a round, the simulator's records, and its checkpoints."""

import math
from dataclasses import replace
from logging import INFO, WARNING
from pathlib import Path
from typing import Any, cast

import torch
from flwr.app import MetricRecord
from flwr.supercore import log

from fedcore.config import Options
from fedcore.errors import BadOption, BadRecord
from fedcore.flower.clock import Notes
from fedcore.flower.fleet import Fleet
from fedcore.records import RoundRecord, RunKey, Snapshot, Waste
from fedcore.report.output import EXPERIMENT, OutputFolder, load_checkpoint, save_checkpoint
from fedcore.server.loop import Merged
from fedcore.server.state import ServerState, from_snapshot, to_snapshot

FORMAT, KEPT, FILES = 1, 3, "round-*.safetensors"


def save(folder: Path, run: RunKey, state: ServerState, fleet: Fleet) -> None:
    """Write the state after a round; jobs in flight are lost with the process that sent them."""
    saved, own = to_snapshot(replace(state, jobs=())), {"format": FORMAT, "fleet": fleet.to_json()}
    path = folder / f"round-{state.version:08d}.safetensors"
    save_checkpoint(path, run, state.version, Snapshot(saved.tensors, {**saved.meta, **own}))
    before = sorted(old for old in folder.glob(FILES) if old <= path)  # others are of a lost run
    for old in before[:-KEPT]:
        old.unlink(missing_ok=True)


def latest(folder: Path, run: RunKey, start: ServerState, fleet: Fleet) -> ServerState:
    """The state after the last round that is whole on disk, and its fleet; else ``start``."""
    folder.mkdir(parents=True, exist_ok=True)  # which fails now, not after the first round
    for path in folder.glob("round-*.npz"):
        what = f"{str(path)!r} is a checkpoint of an earlier version"
        raise BadOption(f"{what}; end the run with that one, or name another folder")
    for path in sorted(folder.glob(FILES), reverse=True):
        try:
            owner, _, saved = load_checkpoint(path) or (run, 0, Snapshot({}, {}))
            if saved.meta.get("format") != FORMAT:
                raise BadRecord(f"{str(path)!r} is no checkpoint of this version")
        except BadRecord as error:
            log(WARNING, "%s; the one before it is used", error)
            continue
        state = from_snapshot(saved, torch.device("cpu"), cast(Any, None))  # it has no jobs
        models = [{n: (v.shape, v.dtype) for n, v in s.params.items()} for s in (state, start)]
        if owner != run or models[0] != models[1]:
            what = f"{str(path)!r} is of another job, {owner.strategy} with seed {owner.seed}, or"
            raise BadOption(f"{what} of another model; name another checkpoint folder")
        fleet.restore(saved.meta["fleet"])
        log(INFO, "going on after round %d, from %s", state.version, path)
        return state
    return start


def open_folder(path: Path, job: Options, run: RunKey, done: int | None) -> OutputFolder:
    """The folder of records; what it holds beyond ``done`` rounds, a few, is trained again."""
    if (path / EXPERIMENT).exists():
        folder = OutputFolder.resume(path, job, [run])
        if folder.runs and (done is None or len(folder.runs[run]) > done + KEPT):
            what = f"out {str(path)!r} holds an earlier run; name a new folder, or checkpoint="
            raise BadOption(f"{what} to go on where that ended")
        folder.runs = {run: kept} if (kept := folder.runs.get(run, [])[:done]) else {}
    else:
        folder = OutputFolder.create(path, job)
    folder.begin()
    return folder


def round_record(
    merged: Merged, notes: Notes, deadline: float, metrics: MetricRecord | None, measuring: float
) -> RoundRecord:
    """A round; ``metrics`` took ``measuring`` seconds, and what nobody measured is None."""

    def first(part: str, most: float) -> float | None:
        """The metric with ``part`` in its name, which is all that Flower's apps agree on."""
        found = [v for k, v in (metrics or {}).items() if part in k and isinstance(v, int | float)]
        return float(found[0]) if found and 0 <= found[0] <= most else None

    # Whoever was late did nothing, in the time it had.
    did = [replace(c, work=0) if c.wasted is Waste.CANCELLED else c for c in merged.clients]
    return RoundRecord(
        *(merged.state.version, merged.seconds, deadline, tuple(did)),
        rejected=merged.rejected + notes.refused,
        train_loss=None,
        train_accuracy=None,
        test_loss=first("loss", math.inf),
        test_accuracy=first("acc", 1.0),
        wall_seconds=merged.seconds + measuring,
        training_seconds=merged.training_seconds,
        evaluation_seconds=measuring,
    )


def line(record: RoundRecord, notes: Notes, reason: str) -> str:
    """One round in one line."""
    paths = [(c, "late" if c.wasted is Waste.CANCELLED else c.path) for c in record.clients]
    asked = sum(c.work > 0 or path == "late" for c, path in paths) + len(notes.failed)
    allowed = record.allowed or record.deadline
    timely = sum(c.work > 0 and c.seconds <= allowed for c in record.clients)
    did = [f"{c.client_id} {path} {c.work} in {c.seconds:.1f} s" for c, path in paths]
    did += [f"{client} {why}" for client, why in notes.failed]
    length = f"{record.seconds:.1f} s of {allowed:.1f} s ({reason})"
    return f"round {record.number}: {length}, {timely} of {asked} on time: {'; '.join(did)}"
