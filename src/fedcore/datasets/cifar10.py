"""CIFAR-10: 60,000 pictures of 32x32 in ten classes, dealt out as ``fedcore.partition`` does.

Krizhevsky 2009. Read is the binary archive, of rows of a label (of CIFAR-100 a coarse one before
it) and 3 x 1,024 bytes: pickles, which others read, could run code. Pixels become -1 to 1.
"""

import io
import tarfile
from functools import partial
from typing import Any

import numpy as np

from fedcore.sources.files import DataDir, DataFile, Source, read
from fedcore.sources.partitions import partitioned


def source(folder: str, name: str, size: int, md5: str) -> Source:
    """An archive of the authors, with the checksum that they publish."""
    url = f"https://www.cs.toronto.edu/~kriz/{name}"
    return Source(folder, (DataFile(name, size, md5, (url,), unpacked=False),))


def samples(source: Source, coarse: int, *, data_dir: DataDir = None) -> Any:
    """Training and held-out pairs; a row has ``coarse`` bytes before its label."""
    content, pairs = read(source, source.files[0].name, data_dir), []
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        names = sorted(name for name in archive.getnames() if name.endswith(".bin"))
        for test in (False, True):
            own = (archive.extractfile(one) for one in names if ("test" in one) == test)
            joined = b"".join(part.read() for part in own if part)
            rows = np.frombuffer(joined, np.uint8).reshape(-1, coarse + 1 + 3 * 32 * 32)
            pictures = rows[:, coarse + 1 :].reshape(-1, 3, 32, 32) / np.float32(127.5)
            pairs.append((np.subtract(pictures, 1, out=pictures), rows[:, coarse]))
    return tuple(pairs)


# A start: the network of MNIST, on three colours.
HYPERPARAMETERS = {"model": "cnn", "batch_size": 32, "learning_rate": 0.05}
HYPERPARAMETERS["evaluate_samples"] = 5_000
MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
SOURCE = source("cifar10", "cifar-10-binary.tar.gz", 170_052_171, MD5)
load = partitioned(partial(samples, SOURCE, 0))
