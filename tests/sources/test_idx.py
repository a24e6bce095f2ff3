import dataclasses
import struct

import numpy as np
import pytest
import torch

from fedcore.errors import BadData, DatasetUnavailable
from fedcore.sources import idx as _idx

OPTIONS = {"seed": 3, "sigma": 1.0, "clients": 20}


def header(*numbers: int, kind: int = 8) -> bytes:
    return struct.pack(f">BBBB{len(numbers)}I", 0, 0, kind, len(numbers), *numbers)


def test_a_file_is_read_in_its_own_shape():
    array = _idx.parse("x", header(2, 1, 3) + bytes(range(6)), dimensions=3)
    assert array.tolist() == [[[0, 1, 2]], [[3, 4, 5]]]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no IDX file"),
        (header(2)[:6], "no IDX file"),
        (header(2, kind=13) + bytes(8), "no IDX file"),
        (header(1, 2) + bytes(2), "no IDX file of 1 dimensions"),
        (header(3) + bytes(2), "should hold 3 values for its shape 3 but holds 2"),
        (header(3) + bytes(4), "should hold 3 values for its shape 3 but holds 4"),
    ],
)
def test_anything_else_is_refused_by_name(content, why):
    with pytest.raises(BadData, match=why) as refused:
        _idx.parse("labels", content, dimensions=1)
    assert str(refused.value).startswith("labels ")


def test_training_files_come_first_and_in_file_order(image_source, image_files):
    source, directory = image_source
    images, labels = _idx.read_pool(source, directory)
    assert images.shape == (600, 8, 8)
    assert labels[:500].tolist() == list(image_files["train-labels-idx1-ubyte"][8:])
    assert labels[500:].tolist() == list(image_files["t10k-labels-idx1-ubyte"][8:])


def test_images_and_labels_must_be_as_many(image_source):
    source, directory = image_source
    by_name = {file.name: file for file in source.files}
    train, test = by_name["train-labels-idx1-ubyte"], by_name["t10k-labels-idx1-ubyte"]
    swapped = {"train-labels-idx1-ubyte": test, "t10k-labels-idx1-ubyte": train}
    files = tuple(dataclasses.replace(swapped.get(f.name, f), name=f.name) for f in source.files)
    folder = directory / "tiny"
    (folder / "t10k-labels-idx1-ubyte").rename(folder / "kept")
    (folder / "train-labels-idx1-ubyte.gz").rename(folder / "t10k-labels-idx1-ubyte.gz")
    (folder / "kept").rename(folder / "train-labels-idx1-ubyte")
    with pytest.raises(BadData, match="tiny has 500 images but 100 labels"):
        _idx.read_pool(type(source)("tiny", files), directory)


def test_pixels_are_standardised_over_the_pool(image_source):
    source, directory = image_source
    images, labels = _idx.read_pool(source, directory)
    pool = images.astype(np.float64)
    expected = (pool - pool.mean(axis=0)) / (pool.std(axis=0) + 0.001)
    dataset = _idx.load(source, data_dir=directory, **OPTIONS)
    found = np.concatenate([dataset.test.x, *(data.x for data in dataset.clients.values())])
    classes = np.concatenate([dataset.test.y, *(data.y for data in dataset.clients.values())])
    # Every image handed out is one of the pool, with its own label, and none is handed out twice.
    distance = np.abs(found.reshape(len(found), 1, -1) - expected.reshape(1, 600, -1)).max(axis=2)
    nearest = distance.argmin(axis=1)
    assert distance.min(axis=1).max() < 1e-4
    assert len(set(nearest)) == len(found)
    assert (labels[nearest] == classes).all()


def test_the_first_nine_tenths_of_a_client_train(image_source):
    source, directory = image_source
    dataset = _idx.load(source, data_dir=directory, **OPTIONS)
    sizes = dataset.sizes
    assert [len(data) for data in dataset.clients.values()] == [int(0.9 * n) for n in sizes]
    assert len(dataset.test) == sum(n - int(0.9 * n) for n in sizes)
    assert dataset.num_classes == 10


def test_inputs_are_float_images_with_a_channel(image_source):
    source, directory = image_source
    data = _idx.load(source, data_dir=directory, **OPTIONS).clients[4]
    assert data.x.dtype == torch.float32
    assert data.x.shape[1:] == (1, 8, 8)
    assert data.y.dtype == torch.int64
    assert set(data.y.tolist()) == {4, 5}


def test_a_seed_gives_the_same_data_again(image_source):
    source, directory = image_source
    first, second = (_idx.load(source, data_dir=directory, **OPTIONS) for _ in range(2))
    assert all(torch.equal(first.clients[i].x, second.clients[i].x) for i in range(20))
    other = _idx.load(source, data_dir=directory, **{**OPTIONS, "seed": 4})
    assert any(len(first.clients[i]) != len(other.clients[i]) for i in range(20))


def test_a_missing_file_is_named(image_source):
    source, directory = image_source
    (directory / "tiny" / "t10k-images-idx3-ubyte").unlink()
    with pytest.raises(DatasetUnavailable, match="t10k-images-idx3-ubyte"):
        _idx.load(source, data_dir=directory, **OPTIONS)
