import struct

import numpy as np
import pytest
import torch

from fedcore.errors import DatasetUnavailable
from fedcore.sources import idx as _idx

OPTIONS = {"seed": 3, "sigma": 1.0, "clients": 20}


def header(*numbers: int, kind: int = 8) -> bytes:
    return struct.pack(f">BBBB{len(numbers)}I", 0, 0, kind, len(numbers), *numbers)


def test_a_file_is_read_in_its_own_shape():
    array = _idx.parse(header(2, 1, 3) + bytes(range(6)), dimensions=3)
    assert array.tolist() == [[[0, 1, 2]], [[3, 4, 5]]]


def test_training_files_come_first_and_in_file_order(image_source, image_files):
    source, directory = image_source
    images, labels = _idx.read_pool(source, directory)
    assert images.shape == (600, 8, 8)
    assert labels[:500].tolist() == list(image_files["train-labels-idx1-ubyte"][8:])
    assert labels[500:].tolist() == list(image_files["t10k-labels-idx1-ubyte"][8:])


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
