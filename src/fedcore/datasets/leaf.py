"""Your own data in the JSON format of LEAF, from the folder or file that --data-dir names.

Caldas et al. 2018: tables with ``users``, ``user_data`` and ``num_samples``. ``--data-dir`` is a
folder with ``train/`` and ``test/``, each with JSON files; or one file, or a folder of files,
whose users' samples are then split by a seed. Numbers become float tensors. Texts become windows
over the 90 symbols of ``shakespeare``, one per sample; the first character of a label is the class.
Of a tweet of Sent140 the text is taken, by characters, where LEAF takes 25 words that GloVe knows.
"""

import gzip
import json
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedcore.arrays import as_samples, check_alike
from fedcore.datasets.shakespeare import SYMBOLS, encode, padded
from fedcore.errors import BadData, BadOption, DatasetUnavailable
from fedcore.sources.files import DataDir
from fedcore.types import ClientData, FederatedDataset
from fedcore.values import whole_number

Users = dict[str, ClientData]
# A start for data nobody knows: the paper's for MNIST, with fewer clients a round.
HYPERPARAMETERS = {"model": "logistic", "learning_rate": 0.03}


def load(
    *,
    seed: int = 0,
    data_dir: DataDir = None,
    train: float = 0.9,
    shape: str = "",
    classes: int = 0,
    length: int = 0,
) -> FederatedDataset:
    """Read the files; users are clients 0, 1, ... in the order of the files.

    ``train`` is the share of each user's samples that train, where the files have no split; an
    input has its own ``shape`` unless one is named; ``classes`` of 0 are as many as labels need;
    texts are padded or cut to a ``length`` unless it is 0.
    """
    if not isinstance(train, int | float) or not 0 < train <= 1:
        raise BadOption(f"train must be a share above 0 and at most 1, got {train!r}")
    whole_number("classes", classes, 0)
    if data_dir is None:
        raise DatasetUnavailable("leaf needs its JSON files; name their folder with --data-dir")
    if (data_dir / "train").is_dir() and (data_dir / "test").is_dir():
        training, held_out = (_read(data_dir / part, length) for part in ("train", "test"))
    else:
        training, held_out = _split(_read(data_dir, length), train, seed)
    if not training:
        raise BadData(f"{str(data_dir)!r} has no user with a sample to train on")
    first_name, first = next(iter(training.items()))
    for name, data in (*training.items(), *held_out.items()):
        check_alike(f"user {name!r}", data.x, f"user {first_name!r}", first.x)
    form = _parse_shape(shape, first.x)
    users = (*training.values(), *held_out.values())
    every = [ClientData(data.x.reshape(len(data), *form), data.y) for data in users]
    away = [data.take(slice(None)) for data in every[len(training) :]]
    test = ClientData(*map(torch.cat, zip(*away, strict=True))) if away else None
    # Characters have a class for each symbol, seen or not.
    most = max(int(data.y.max()) for data in every)
    found = SYMBOLS if first.x.dtype == torch.uint8 else 1 + most
    sizes = [len(data) + len(held_out.get(name, ())) for name, data in training.items()]
    return FederatedDataset(dict(enumerate(every[: len(sizes)])), test, classes or found, sizes)


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


def _parse_shape(shape: str, inputs: Tensor) -> tuple[int, ...]:
    """The shape of an input that ``1x28x28`` says, or else the one it has."""
    if not shape:
        return tuple(inputs.shape[1:])
    parts = str(shape).split("x")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise BadOption(f"shape must look like 1x28x28, got {shape!r}")
    form, numbers = tuple(map(int, parts)), inputs[0].numel()
    if math.prod(form) != numbers:
        many = f"as many numbers as an input, which is {numbers}"
        raise BadOption(f"shape must have {many}, got {shape}")
    return form


def _read(place: Path, length: int) -> Users:
    """The users of a file, or of all files in a folder."""
    inside = (*place.glob("*.json"), *place.glob("*.json.gz"))
    files = [place] if place.is_file() else sorted(inside)
    if not files:
        what = f"no .json files in {str(place)!r}; --data-dir must name a LEAF file"
        raise DatasetUnavailable(f"{what}, a folder of them, or one with train/ and test/")
    users: Users = {}
    for path in files:
        for name, data in read_users(path, length).items():
            if name in users:
                raise BadData(f"user {name!r} in {str(path)!r} is in an earlier file too")
            users[name] = data
    return users


def read_users(path: Path, length: int = 0) -> Users:
    """The users of a file in the order of ``users``; those without samples are left out."""
    try:
        raw = path.read_bytes()
        content = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise BadData(f"{str(path)!r} cannot be read as JSON: {error}") from None
    if not isinstance(content, dict):
        raise BadData(f"{str(path)!r} is no LEAF file: it holds a {type(content).__name__}")
    for key, kind in (("users", list), ("user_data", dict), ("num_samples", list)):
        if not isinstance(content.get(key), kind):
            none = f"it has no {'list' if kind is list else 'table'} {key!r}"
            needs = "it needs users, user_data and num_samples"
            raise BadData(f"{str(path)!r} is no LEAF file: {none} ({needs})")
    users, counts = content["users"], content["num_samples"]
    if len(users) != len(counts):
        raise BadData(f"{str(path)!r} has {len(users)} users but {len(counts)} num_samples")
    if not all(isinstance(user, str) for user in users) or len(set(users)) < len(users):
        raise BadData(f"{str(path)!r} has users whose names are not text, or there twice")
    found: Users = {}
    for user, count in zip(users, counts, strict=True):
        where = f"user {user!r} in {str(path)!r}"
        data = _samples(where, content["user_data"].get(user), length)
        if len(data) != count:
            raise BadData(f"{where} has {len(data)} samples, but num_samples says {count}")
        if len(data):
            found[user] = data
    return found


def _samples(where: str, entry: Any, length: int) -> ClientData:
    """Numbers as they are; texts of one length as symbols, labels by their first character."""
    if not isinstance(entry, dict) or not all(isinstance(entry.get(k), list) for k in "xy"):
        raise BadData(f"{where} has no lists 'x' and 'y' in user_data")
    x, y = entry["x"], entry["y"]
    if x and all(isinstance(row, list) and [*map(type, row)] == [str] * 6 for row in x):
        x = [row[4] for row in x]  # of Sent140: id, date, query, user, text, part
    if is_text := bool(x) and all(isinstance(text, str) for text in x):
        if length == 0 and len({len(text) for text in x}) > 1:
            raise BadData(f"{where} has texts of different lengths; windows must have one length")
        x = padded(x, length or len(x[0]))
    if y and all(isinstance(text, str) and text for text in y):
        y = torch.cat([encode(text[0]) for text in y])
    data = as_samples(where, (x, y), torch.float32)
    if len(data) and int(data.y.min()) < 0:
        raise BadData(f"labels of {where} must be from 0, got {int(data.y.min())}")
    return data if is_text else ClientData(data.x.float(), data.y)
