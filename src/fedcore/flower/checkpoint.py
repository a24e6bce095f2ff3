"""Checkpoints of a deployment: one file a round, the last few kept; a damaged one is passed over.

They are those of the simulator (``report.output``): NumPy's npz without pickle, with a checksum of
names, types, shapes and raw bytes, put in place in one step. What the fleet taught is in them.
"""

from __future__ import annotations

from dataclasses import replace
from logging import WARNING
from pathlib import Path

import torch
from flwr.supercore import log

from fedcore.errors import BadOption, BadRecord
from fedcore.flower.fleet import Fleet
from fedcore.records import RunKey, Snapshot
from fedcore.report.output import load_checkpoint, save_checkpoint
from fedcore.server.state import ServerState, from_snapshot, to_snapshot
from fedcore.types import Assignment, ClientProfile

FORMAT, KEPT, FILES = 1, 3, "round-*.npz"


def save(folder: Path, run: RunKey, state: ServerState, fleet: Fleet, deadline: float) -> None:
    """Write the state after a round; jobs in flight are lost with the process that sent them."""
    saved = to_snapshot(replace(state, jobs=()))
    own = {"format": FORMAT, "fleet": fleet.to_json(), "deadline": deadline}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"round-{state.version:08d}.npz"
    save_checkpoint(path, run, state.version, Snapshot(saved.tensors, {**saved.meta, **own}))
    for old in sorted(folder.glob(FILES))[:-KEPT]:
        old.unlink(missing_ok=True)


def latest(
    folder: Path, run: RunKey, start: ServerState, fleet: Fleet
) -> tuple[ServerState, float | None]:
    """The state after the last round that is whole on disk, and its deadline; else ``start``."""
    for path in sorted(folder.glob(FILES), reverse=True):
        try:
            owner, _, saved = load_checkpoint(path) or (None, 0, Snapshot({}, {}))
            if owner is None or saved.meta.get("format") != FORMAT:
                raise BadRecord(f"{str(path)!r} is no checkpoint of this version")
        except BadRecord as error:
            log(WARNING, "%s; the one before it is used", error)
            continue
        state = from_snapshot(saved, torch.device("cpu"), _no_jobs)
        models = [{n: (v.shape, v.dtype) for n, v in s.params.items()} for s in (state, start)]
        if owner != run or models[0] != models[1]:
            raise BadOption(
                f"{str(path)!r} is of another job, {owner.strategy} with seed {owner.seed}, or of "
                "another model; name another checkpoint folder"
            )
        fleet.restore(saved.meta["fleet"])
        return state, saved.meta["deadline"]
    return start, None


def _no_jobs(*job: object) -> tuple[Assignment, ClientProfile]:
    raise AssertionError("a checkpoint of a deployment holds no jobs")
