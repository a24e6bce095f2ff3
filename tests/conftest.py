"""Small builders that tests share: clients, files in the formats of the real ones, and those."""

import gzip
import hashlib
import os
import signal
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before kernels are imported: they run on the CPU
# Processes that tests start see the same source, installed or not.
os.environ["PYTHONPATH"] = str(Path(__file__).parents[1] / "src")

from fedcore.sources import files
from fedcore.types import ClientData

CHECKOUT = Path(__file__).parents[1]
PER_CLASS = 60

# In the background of a shell interruptions are ignored, also by processes that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)  # small steps: threads cost more than they bring
torch.backends.cudnn.allow_tf32 = False  # equality is judged in float32, on a GPU too


def a_client(size: int = 12, features: int = 3, classes: int = 2, seed: int = 0) -> ClientData:
    draw = np.random.default_rng(seed)
    x = torch.from_numpy(draw.normal(size=(size, features))).float()
    y = torch.from_numpy(draw.integers(classes, size=size))
    return ClientData(x, y)


@pytest.fixture
def build_client():
    return a_client


def idx(array: np.ndarray) -> bytes:
    """An IDX file, written from its description and not with the code under test."""
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return head + array.astype(np.uint8).tobytes()


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """real_data(folder): a data directory that has that dataset, or a skip."""
    named = [Path(os.environ["FEDCORE_DATA"])] if "FEDCORE_DATA" in os.environ else []

    def find(folder: str) -> Path:
        for directory in (*named, CHECKOUT.parent / "shared" / "data"):
            if (directory / folder).is_dir():
                return directory
        pytest.skip(f"the real data is not here: no {folder}/ in $FEDCORE_DATA or ../shared/data")

    return find


@pytest.fixture
def image_files() -> dict[str, bytes]:
    """600 tiny images in four IDX files: 60 of each class, pixels told apart by row."""
    draw = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), PER_CLASS)
    draw.shuffle(labels)
    images = draw.integers(0, 256, (len(labels), 8, 8))
    images[:, 0, 0] = 7  # a pixel that never changes: its standard deviation is zero
    parts = {"train": slice(0, 500), "t10k": slice(500, 600)}
    return {
        f"{part}-{name}": idx(array[rows])
        for part, rows in parts.items()
        for name, array in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", labels))
    }


@pytest.fixture
def image_source(image_files, tmp_path) -> tuple[files.Source, Path]:
    """The tiny images as a source, and the data directory they lie in: half of them gzipped."""
    digests = {n: (len(c), hashlib.md5(c).hexdigest()) for n, c in image_files.items()}
    folder = tmp_path / "data" / "tiny"
    folder.mkdir(parents=True)
    for name, content in image_files.items():
        if name.startswith("train"):
            (folder / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
        else:
            (folder / name).write_bytes(content)
    nowhere = "http://127.0.0.1:9/none"
    own = (files.DataFile(n, *digests[n], (f"{nowhere}/{n}.gz",)) for n in digests)
    return files.Source("tiny", tuple(own)), tmp_path / "data"
