"""Read one JSON file of LEAF: every user's samples as tensors, or a refusal that names the user."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedcore.arrays import as_labels, as_tensor
from fedcore.errors import BadData
from fedcore.sources import characters as _characters
from fedcore.types import ClientData


def read_users(path: Path) -> dict[str, ClientData]:
    """Users with their samples, in the order of ``users``; those without any are left out."""
    content = _parse(path)
    for key, kind in (("users", list), ("user_data", dict), ("num_samples", list)):
        if not isinstance(content.get(key), kind):
            raise BadData(
                f"{str(path)!r} is no LEAF file: it has no {'list' if kind is list else 'table'} "
                f"{key!r} (it needs users, user_data and num_samples)"
            )
    users, counts = content["users"], content["num_samples"]
    if len(users) != len(counts):
        raise BadData(f"{str(path)!r} has {len(users)} users but {len(counts)} num_samples")
    if not all(isinstance(user, str) for user in users) or len(set(users)) < len(users):
        raise BadData(f"{str(path)!r} has users whose names are not text, or there twice")
    found: dict[str, ClientData] = {}
    for user, count in zip(users, counts, strict=True):
        where = f"user {user!r} in {str(path)!r}"
        data = _samples(where, content["user_data"].get(user))
        if len(data) != count:
            raise BadData(f"{where} has {len(data)} samples, but num_samples says {count}")
        if len(data):
            found[user] = data
    return found


def _parse(path: Path) -> dict[str, Any]:
    try:
        raw = path.read_bytes()
        content = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise BadData(f"{str(path)!r} cannot be read as JSON: {error}") from None
    if not isinstance(content, dict):
        raise BadData(f"{str(path)!r} is no LEAF file: it holds a {type(content).__name__}")
    return content


def _samples(where: str, entry: Any) -> ClientData:
    if not isinstance(entry, dict) or not all(isinstance(entry.get(k), list) for k in "xy"):
        raise BadData(f"{where} has no lists 'x' and 'y' in user_data")
    inputs, labels = _inputs(where, entry["x"]), _labels(where, entry["y"])
    if len(inputs) != len(labels):
        raise BadData(f"{where} has {len(inputs)} inputs but {len(labels)} labels; each needs one")
    return ClientData(inputs, labels)


def _inputs(where: str, inputs: list[Any]) -> Tensor:
    """Numbers as they are, texts of one length as symbols."""
    if inputs and all(isinstance(text, str) for text in inputs):
        if len({len(text) for text in inputs}) > 1:
            raise BadData(f"{where} has texts of different lengths; windows must have one length")
        return torch.stack([_characters.encode(text) for text in inputs])
    return as_tensor(f"inputs of {where}", inputs).float()


def _labels(where: str, labels: list[Any]) -> Tensor:
    """Classes: numbers as they are, texts by their first character."""
    if labels and all(isinstance(text, str) and text for text in labels):
        return torch.cat([_characters.encode(text[0]) for text in labels]).long()
    classes = as_labels(f"labels of {where}", labels)
    if len(classes) and int(classes.min()) < 0:
        raise BadData(f"labels of {where} must be from 0, got {int(classes.min())}")
    return classes
