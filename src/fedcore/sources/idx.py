"""MNIST and its relatives: their file format, and how FedProx deals their images to clients.

An IDX file is big-endian: two zero bytes, a type (8: unsigned bytes), the number of dimensions,
each dimension as a 32-bit number, then the values. The partition is that of Li et al. 2020,
section 5.1, and of section 6.1 of the paper: two classes per client, amounts by a power law.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from fedcore.errors import BadOption
from fedcore.sources.files import DataDir, DataFile, Source, read
from fedcore.types import ClientData, FederatedDataset

CLASSES = 10
FIRST = 5  # images of each of its classes that every client gets before the draw
TRAIN_SHARE = 0.9

Bytes = NDArray[np.uint8]
Rows = NDArray[np.int64]
FILES = {"train-images-idx3-ubyte": 47_040_016, "train-labels-idx1-ubyte": 60_008}  # bytes
FILES |= {"t10k-images-idx3-ubyte": 7_840_016, "t10k-labels-idx1-ubyte": 10_008}


def source(folder: str, train: str, test: str, *origins: str) -> Source:
    """The files of a dataset of MNIST's size; two strings have the MD5s of what they unpack to."""
    digests = dict(zip(FILES, f"{train} {test}".split(), strict=True))
    urls = {name: tuple(f"{origin}/{name}.gz" for origin in origins) for name in FILES}
    files = (DataFile(name, size, digests[name], urls[name]) for name, size in FILES.items())
    return Source(folder, tuple(files))


def load(
    files: Source, seed: int, *, data_dir: DataDir = None, sigma: float = 2.0, clients: int = 1_000
) -> FederatedDataset:
    """Images [m, 1, 28, 28], two classes per client, sizes ~ lognormal(0, sigma).

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
    # Exact sums of whole numbers, each pixel's.
    mean = images.sum(axis=0, dtype=np.int64) / len(images)
    squares = np.einsum("nhw,nhw->hw", images, images, dtype=np.int64) / len(images)
    deviation = np.sqrt(np.maximum(squares - mean**2, 0)) + 0.001

    def pooled(parts: list[Rows]) -> ClientData:
        rows = np.concatenate(parts)
        x = images[rows].astype(np.float32)
        x -= mean.astype(np.float32)
        x /= deviation.astype(np.float32)
        return ClientData(torch.from_numpy(x).unsqueeze(1), torch.from_numpy(labels[rows]))

    trained, cuts = pooled(train), [len(rows) for rows in train]
    # Views on one tensor: clients cost no memory of their own.
    views = map(ClientData, torch.split(trained.x, cuts), torch.split(trained.y, cuts))
    sizes = [len(rows) for rows in owned]
    return FederatedDataset(dict(enumerate(views)), pooled(held_out), CLASSES, sizes)


def read_pool(files: Source, data_dir: DataDir) -> tuple[Bytes, Rows]:
    """All images [n, height, width] and labels [n], training files first, in file order."""

    def both(kind: str, dimensions: int) -> Bytes:
        names = (f"{part}-{kind}-ubyte" for part in ("train", "t10k"))
        return np.concatenate([parse(read(files, name, data_dir), dimensions) for name in names])

    return both("images-idx3", 3), both("labels-idx1", 1).astype(np.int64)


def parse(content: bytes, dimensions: int) -> Bytes:
    """The array in an IDX file of unsigned bytes, whose checksum has been found right."""
    shape = np.frombuffer(content, ">u4", dimensions, offset=4).astype(int)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def by_power_law(labels: Rows, *, clients: int, sigma: float, seed: int) -> list[Rows]:
    """Which rows each client holds, class by class in the order they were handed out.

    Client u holds classes u mod 10 (slot 0) and (u + 1) mod 10 (slot 1), and first takes the next
    5 rows of each. Weights w[class, block, slot] ~ lognormal(0, sigma), block u // 10, scaled so
    that a class's weights sum to the rows it has left, and truncated, say how many further rows
    each client and slot gets, in order of u, then slot. A grant that would reach the end of a
    class is skipped, so a few rows stay with nobody. FedProx has sigma 2, and no seed.
    """
    if not isinstance(clients, int) or clients < CLASSES or clients % CLASSES:
        raise BadOption(f"clients must be a multiple of {CLASSES}, as in 1000, got {clients}")
    if not isinstance(sigma, int | float) or not 0 <= sigma <= 20:
        raise BadOption(f"sigma must be a number from 0 to 20, got {sigma}; FedProx has 2")
    rows = [np.flatnonzero(labels == number) for number in range(CLASSES)]
    first = 2 * FIRST * clients // CLASSES  # rows of a class that are dealt before the draw
    if (fewest := min(map(len, rows))) < first:
        most = f"{fewest // (2 * FIRST) * CLASSES}, since some class has only {fewest} images"
        raise BadOption(f"clients must be at most {most}, got {clients}")
    left = np.array([len(group) - first for group in rows])[:, None, None]
    # The legacy generator, because the seeds that match published numbers were searched with it.
    weights = np.random.RandomState(seed).lognormal(0, sigma, (CLASSES, clients // CLASSES, 2))
    grants = left * weights / weights.sum(axis=(1, 2), keepdims=True)
    taken = [0] * CLASSES
    owned: list[list[Rows]] = [[] for _ in range(clients)]
    for drawn in (False, True):
        for client in range(clients):
            for slot in (0, 1):
                number = (client + slot) % CLASSES
                count = int(grants[number, client // CLASSES, slot]) if drawn else FIRST
                end = taken[number] + count
                if not drawn or end < len(rows[number]):
                    owned[client].append(rows[number][taken[number] : end])
                    taken[number] = end
    return [np.concatenate(parts) for parts in owned]
