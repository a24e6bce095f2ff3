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

from fedcore.errors import BadData, BadOption, DatasetUnavailable
from fedcore.sources import characters as _characters
from fedcore.sources.benchmark import no_suffix
from fedcore.sources.leaf_json import read_users
from fedcore.types import ClientData, FederatedDataset

BENCHMARKS = ("leaf",)

Users = dict[str, ClientData]

_HYPERPARAMETERS: dict[str, Any] = {
    "model": "logistic",
    "rounds": 100,
    "epochs": 10,
    "batch_size": 8,
    "learning_rate": 0.03,
    "clients_per_round": 10,
    "fedprox_mu": 0.1,
}


def hyperparameters(preset: str) -> dict[str, Any]:
    """A start for data nobody knows: the paper's for MNIST, with fewer clients a round."""
    return dict(_HYPERPARAMETERS)


def parse(suffix: str) -> dict[str, Any]:
    """The data is named by ``--data-dir``, not by the benchmark's name."""
    return no_suffix("leaf", suffix)


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
    _check(train, classes, seed)
    training, held_out = _read(data_dir, train, seed)
    form = _parse_shape(shape)
    clients = [_reshape(name, data, form) for name, data in training.items()]
    tests = [_reshape(name, data, form) for name, data in held_out.items()]
    forms = {(tuple(data.x.shape[1:]), data.x.dtype) for data in (*clients, *tests)}
    if len(forms) > 1:
        raise BadData(
            f"{str(data_dir)!r} has inputs of different shapes or kinds among its users, such as "
            f"{' and '.join(sorted(str(list(size)) for size, _ in forms)[:2])}; they need one"
        )
    return FederatedDataset(
        dict(enumerate(clients)), _pool(tests), classes or _count_classes(clients + tests)
    )


def client_sizes(
    *,
    seed: int = 0,
    data_dir: Path | None = None,
    train: float = 0.9,
    shape: str = "",
    classes: int = 0,
) -> list[int]:
    """Samples of each user, training and test together."""
    _check(train, classes, seed)
    training, held_out = _read(data_dir, train, seed)
    return [len(data) + len(held_out.get(name, ())) for name, data in training.items()]


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


def _reshape(name: str, data: ClientData, form: tuple[int, ...] | None) -> ClientData:
    if form is None:
        return data
    if data.x[0].numel() != math.prod(form):
        raise BadOption(
            f"shape must have as many numbers as an input, which is {data.x[0].numel()} for user "
            f"{name!r}, got {'x'.join(map(str, form))}"
        )
    return ClientData(data.x.reshape(-1, *form), data.y)


def _parse_shape(shape: str) -> tuple[int, ...] | None:
    parts = str(shape).split("x") if shape else []
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise BadOption(f"shape must look like 1x28x28, got {shape!r}")
    return tuple(map(int, parts)) or None


def _pool(tests: list[ClientData]) -> ClientData | None:
    if not tests:
        return None
    return ClientData(torch.cat([data.x for data in tests]), torch.cat([data.y for data in tests]))


def _count_classes(data: list[ClientData]) -> int:
    if data[0].x.dtype == torch.uint8:  # characters: a class for each symbol, seen or not
        return _characters.SIZE
    return max(int(part.y.max()) for part in data) + 1


def _check(train: float, classes: int, seed: int) -> None:
    if not isinstance(train, int | float) or not 0 < train <= 1:
        raise BadOption(f"train must be a share above 0 and at most 1, got {train}")
    if not isinstance(classes, int) or classes < 0:
        raise BadOption(f"classes must be a whole number, or 0 to count them, got {classes}")
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise BadOption(f"seed must be a whole number from 0 to {2**32 - 1}, got {seed}")
