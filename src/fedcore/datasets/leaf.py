"""Your own data in the JSON format of LEAF, from the folder or file that --data-dir names.

Caldas et al. 2018: tables with ``users``, ``user_data`` and ``num_samples``. ``--data-dir`` is a
folder with ``train/`` and ``test/``, each with JSON files; or one file, or a folder of files,
whose users' samples are then split by a seed. Numbers become float tensors. Texts become windows
over the 90 symbols of ``_characters``, one per sample; the first character of a label is the class.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedcore.arrays import check_alike
from fedcore.errors import BadData, BadOption, DatasetUnavailable
from fedcore.sources import characters as _characters
from fedcore.sources.leaf_json import read_users
from fedcore.types import ClientData, FederatedDataset
from fedcore.values import whole_number

Users = dict[str, ClientData]


def hyperparameters(preset: str) -> dict[str, Any]:
    """A start for data nobody knows: the paper's for MNIST, with fewer clients a round."""
    return {"model": "logistic", "learning_rate": 0.03}


def load(
    *,
    seed: int = 0,
    data_dir: Path | None = None,
    train: float = 0.9,
    shape: str = "",
    classes: int = 0,
) -> FederatedDataset:
    """Read the files; users are clients 0, 1, ... in the order of the files.

    Args:
        seed: of the split, where the files have none.
        data_dir: a folder or a file.
        train: share of each user's samples that train, where the files have no split.
        shape: of one input, as in ``1x28x28``; left out, as the files have it.
        classes: how many; left out, one more than the largest label.
    """
    if not isinstance(train, int | float) or not 0 < train <= 1:
        raise BadOption(f"train must be a share above 0 and at most 1, got {train}")
    whole_number("classes", classes, 0)
    training, held_out = _read(data_dir, train, seed)
    first_name, first = next(iter(training.items()))
    for name, data in (*training.items(), *held_out.items()):
        check_alike(f"user {name!r}", data.x, f"user {first_name!r}", first.x)
    form = _parse_shape(shape, first.x[0].numel())
    clients = [_reshape(data, form) for data in training.values()]
    tests = [_reshape(data, form) for data in held_out.values()]
    sizes = [len(data) + len(held_out.get(name, ())) for name, data in training.items()]
    return FederatedDataset(
        dict(enumerate(clients)), _pool(tests), classes or _count_classes(clients + tests), sizes
    )


def _read(data_dir: Path | None, train: float, seed: int) -> tuple[Users, Users]:
    """Users' training and test samples."""
    if data_dir is None:
        raise DatasetUnavailable(
            "leaf needs to know where its JSON files are; name their folder with --data-dir"
        )
    folders = (data_dir / "train", data_dir / "test")
    if all(folder.is_dir() for folder in folders):
        training, held_out = (_merge(_json_files(folder)) for folder in folders)
    else:
        files = [data_dir] if data_dir.is_file() else _json_files(data_dir)
        training, held_out = _split(_merge(files), train, seed)
    if not training:
        raise BadData(f"{str(data_dir)!r} has no user with a sample to train on")
    return training, held_out


def _json_files(folder: Path) -> list[Path]:
    files = sorted([*folder.glob("*.json"), *folder.glob("*.json.gz")]) if folder.is_dir() else []
    if not files:
        raise DatasetUnavailable(
            f"no .json files in {str(folder)!r}; --data-dir must name a LEAF file, a folder of "
            "them, or one with train/ and test/"
        )
    return files


def _merge(files: list[Path]) -> Users:
    users: Users = {}
    for path in files:
        for name, data in read_users(path).items():
            if name in users:
                raise BadData(f"user {name!r} in {str(path)!r} is in an earlier file too")
            users[name] = data
    return users


def _split(users: Users, train: float, seed: int) -> tuple[Users, Users]:
    """Each user's first int(train * n) samples in random order, at least one; and the rest."""
    training, held_out = {}, {}
    for number, (name, data) in enumerate(users.items()):
        order = torch.from_numpy(np.random.RandomState([seed, number]).permutation(len(data)))
        cut = max(int(train * len(data)), 1)
        training[name] = ClientData(*data.take(order[:cut]))
        if cut < len(data):
            held_out[name] = ClientData(*data.take(order[cut:]))
    return training, held_out


def _reshape(data: ClientData, form: tuple[int, ...] | None) -> ClientData:
    return data if form is None else ClientData(data.x.reshape(-1, *form), data.y)


def _parse_shape(shape: str, numbers: int) -> tuple[int, ...] | None:
    """The shape that ``1x28x28`` says; an input has as many ``numbers``."""
    if not shape:
        return None
    parts = str(shape).split("x")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise BadOption(f"shape must look like 1x28x28, got {shape!r}")
    form = tuple(map(int, parts))
    if math.prod(form) != numbers:
        raise BadOption(
            f"shape must have as many numbers as an input, which is {numbers}, got {shape}"
        )
    return form


def _pool(tests: list[ClientData]) -> ClientData | None:
    if not tests:
        return None
    return ClientData(torch.cat([data.x for data in tests]), torch.cat([data.y for data in tests]))


def _count_classes(data: list[ClientData]) -> int:
    if data[0].x.dtype == torch.uint8:  # characters: a class for each symbol, seen or not
        return _characters.SIZE
    return max(int(part.y.max()) for part in data) + 1
