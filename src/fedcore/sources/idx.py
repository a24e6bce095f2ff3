"""The IDX file format of MNIST and its relatives, and the federated datasets made from it.

An IDX file is big-endian: two zero bytes, a type (8: unsigned bytes), the number of dimensions,
each dimension as a 32-bit number, then the values.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fedcore.errors import BadData
from fedcore.sources import files as _files
from fedcore.sources.partition import CLASSES, by_power_law
from fedcore.types import ClientData, FederatedDataset

PARTS = ("train", "t10k")
TRAIN_SHARE = 0.9

Bytes = NDArray[np.uint8]


def source(folder: str, digests: dict[str, tuple[int, str]], *origins: str) -> _files.Source:
    """The four files of a dataset in this format; ``digests`` are size and MD5, unpacked."""
    files = [
        _files.DataFile(name, size, md5, tuple(f"{origin}/{name}.gz" for origin in origins))
        for name, (size, md5) in digests.items()
    ]
    return _files.Source(folder, tuple(files))


def load(
    files: _files.Source, *, seed: int, data_dir: Path | None, sigma: float, clients: int
) -> FederatedDataset:
    """Pool all images, standardise them, hand them to clients, hold out each one's last tenth.

    Every pixel is standardised over the pool: (x - mean) / (std + 0.001), as FedProx does.
    A client's images are shuffled; the first int(0.9 n) train.
    """
    images, labels = read_pool(files, data_dir)
    owned = by_power_law(labels, clients=clients, sigma=sigma, seed=seed)
    train, held_out = [], []
    for client, rows in enumerate(owned):
        # The original shuffles without a seed; ours has one, apart from the draw of the partition.
        order = rows[np.random.RandomState([seed, client]).permutation(len(rows))]
        cut = int(TRAIN_SHARE * len(rows))
        train.append(order[:cut])
        held_out.append(order[cut:])
    scale = _scale(images)
    trained = _tensors(images, labels, np.concatenate(train), scale)
    cuts = [len(rows) for rows in train]  # views on one tensor: clients cost no memory of their own
    parts = zip(torch.split(trained.x, cuts), torch.split(trained.y, cuts), strict=True)
    return FederatedDataset(
        {client: ClientData(x, y) for client, (x, y) in enumerate(parts)},
        _tensors(images, labels, np.concatenate(held_out), scale),
        CLASSES,
        [len(rows) for rows in owned],
    )


def read_pool(files: _files.Source, data_dir: Path | None) -> tuple[Bytes, NDArray[np.int64]]:
    """All images [n, height, width] and labels [n], training files first, in file order."""
    images, labels = [], []
    for part in PARTS:
        names = (f"{part}-images-idx3-ubyte", 3), (f"{part}-labels-idx1-ubyte", 1)
        pictures, digits = (
            parse(name, _files.read(files, name, data_dir), size) for name, size in names
        )
        if len(pictures) != len(digits):
            raise BadData(f"{files.folder} has {len(pictures)} images but {len(digits)} labels")
        images.append(pictures)
        labels.append(digits)
    return np.concatenate(images), np.concatenate(labels).astype(np.int64)


def parse(name: str, content: bytes, dimensions: int) -> Bytes:
    """The array in an IDX file of unsigned bytes; ``name`` is for the refusal."""
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes((0, 0, 8, dimensions)):
        raise BadData(f"{name} is no IDX file of {dimensions} dimensions of bytes; fetch it again")
    shape = np.frombuffer(content, ">u4", dimensions, offset=4).astype(int)
    if len(content) != header + int(np.prod(shape)):
        raise BadData(
            f"{name} should hold {int(np.prod(shape)):,} values for its shape "
            f"{'x'.join(map(str, shape))} but holds {len(content) - header:,}; fetch it again"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _scale(images: Bytes) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and std + 0.001 of every pixel, from exact sums of whole numbers."""
    count = len(images)
    total = images.sum(axis=0, dtype=np.int64)
    squares = np.zeros_like(total)
    for start in range(0, count, 4096):  # bounds memory
        squares += (images[start : start + 4096].astype(np.int64) ** 2).sum(axis=0)
    mean = total / count
    std = np.sqrt(np.maximum(squares / count - mean**2, 0))
    return mean.astype(np.float32), (std + 0.001).astype(np.float32)


def _tensors(
    images: Bytes,
    labels: NDArray[np.int64],
    rows: NDArray[np.int64],
    scale: tuple[NDArray[np.float32], NDArray[np.float32]],
) -> ClientData:
    x = images[rows].astype(np.float32)
    x -= scale[0]
    x /= scale[1]
    return ClientData(torch.from_numpy(x).unsqueeze(1), torch.from_numpy(labels[rows]))
