"""A server's state on disk: NumPy's npz, read without pickle, with a checksum of its content.

Arrays ``tensor/NAME`` are a snapshot's tensors; ``run``, ``round`` and ``meta`` say whose it is and
hold the rest as JSON. A type that NumPy lacks, such as bfloat16, is stored as whole numbers of its
size, and ``meta`` names it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.errors import BadRecord
from fedcore.records import RunKey, Snapshot

TENSOR = "tensor/"
VIEWS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}  # by size of an element


def save(path: Path, run: RunKey, number: int, snapshot: Snapshot) -> None:
    """Replace the checkpoint at ``path`` in one step."""
    arrays: dict[str, Any] = {TENSOR + k: _to_array(v) for k, v in snapshot.tensors.items()}
    types = {k: str(v.dtype).removeprefix("torch.") for k, v in snapshot.tensors.items()}
    arrays["run"] = np.array(json.dumps(asdict(run)))
    arrays["round"] = np.array(number)
    arrays["meta"] = np.array(json.dumps({"types": types, "values": dict(snapshot.meta)}))
    arrays["check"] = np.array(_digest(arrays))
    np.savez(partial_of(path), **arrays)
    partial_of(path).replace(path)


def load(path: Path) -> tuple[RunKey, int, Snapshot] | None:
    """Which run, how many of its rounds, and the state after them; None without a checkpoint."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        number = int(arrays["round"])
        if "meta" not in arrays:  # versions before 0.2 wrote parameters only, as param/NAME
            tensors = {k: torch.from_numpy(v) for k, v in arrays.items() if k.startswith("param/")}
            values = {"version": number, "jobs": []}
        else:
            if str(arrays.pop("check")) != _digest(arrays):
                raise ValueError("its content is not what was written")
            meta = json.loads(str(arrays["meta"]))
            tensors = {k: _to_tensor(arrays[TENSOR + k], kind) for k, kind in meta["types"].items()}
            values = meta["values"]
        return RunKey(**json.loads(str(arrays["run"]))), number, Snapshot(tensors, values)
    except FileNotFoundError:
        return None
    except Exception as error:  # whatever zip, NumPy or JSON say to a file that is not one of ours
        raise BadRecord(f"{str(path)!r} is damaged ({error}); delete it and resume again") from None


def partial_of(path: Path) -> Path:
    """Where a file is written before it takes its place, so that nobody ever sees half of it."""
    return path.with_name(f"{path.stem}.partial{path.suffix}")


def _to_array(tensor: Tensor) -> NDArray[Any]:
    tensor = tensor.detach().cpu()
    try:
        return tensor.numpy()
    except TypeError:
        return tensor.view(VIEWS[tensor.element_size()]).numpy()


def _to_tensor(array: NDArray[Any], kind: str) -> Tensor:
    tensor, dtype = torch.from_numpy(array), getattr(torch, kind)
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """A hash of names, types, shapes and bytes."""
    found = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype.str} {arrays[name].shape} ".encode())
        found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()
