"""CIFAR-10 and CIFAR-100, on small archives of the same format and a server of our own."""

import hashlib
import io
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch

from fedcore.datasets import cifar10, cifar100
from fedcore.errors import BadData, BadOption, DatasetUnavailable
from fedcore.sources import benchmark as _benchmark
from fedcore.sources import files
from fedcore.sources.files import DataFile, Source
from fedcore.sources.partitions import partitioned

PER_FILE = 40


def rows(draw, coarse, classes):
    """Records as the authors describe them: labels, then red, green and blue rows."""
    labels = [draw.integers(20, size=(PER_FILE, 1))] if coarse else []
    labels += [np.arange(PER_FILE)[:, None] % classes]
    pixels = draw.integers(256, size=(PER_FILE, 3072))
    return np.hstack([*labels, pixels]).astype(np.uint8)


def archive(contents):
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as made:
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    return whole.getvalue()


FORMS = {
    "cifar10": (cifar10, 0, 10, "cifar-10-batches-bin/{}.bin", ("data_batch_2", "data_batch_1")),
    "cifar100": (cifar100, 1, 100, "cifar-100-binary/{}.bin", ("train",)),
}


@pytest.fixture(params=FORMS)
def small(request, tmp_path, monkeypatch):
    """A dataset whose archive is small and served from here; and what is in it."""
    module, coarse, classes, path, train = FORMS[request.param]
    draw = np.random.default_rng(0)
    parts = {path.format(name): rows(draw, coarse, classes) for name in train}
    held_out = path.format("test" if coarse else "test_batch")
    parts[held_out] = rows(draw, coarse, classes)
    contents = {name: array.tobytes() for name, array in parts.items()}
    made = archive({**contents, path.format("meta").replace("bin", "txt"): b"names"})
    folder = tmp_path / "origin"
    folder.mkdir()
    (folder / "small.tar.gz").write_bytes(made)
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder)
    )
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}/small.tar.gz"
    md5 = hashlib.md5(made).hexdigest()
    source = Source(
        request.param, (DataFile("small.tar.gz", len(made), md5, (url,), unpacked=False),)
    )
    monkeypatch.setattr(module, "SOURCE", source)
    monkeypatch.setattr(module, "load", partitioned(partial(cifar10.samples, source, coarse)))
    expected = np.concatenate([parts[path.format(name)] for name in sorted(train)])
    yield request.param, source, coarse, expected, parts[held_out]
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_an_archive_is_fetched_read_and_dealt_out(small, tmp_path):
    name, source, coarse, expected, held_out = small
    (file,) = source.files
    with pytest.raises(DatasetUnavailable, match=f"run 'fedcore data fetch {name}"):
        _benchmark.find(name).load(seed=0, data_dir=tmp_path, options={})
    path, new = files.fetch(source, file, tmp_path)
    assert (path, new) == (tmp_path / name / "small.tar.gz", True)
    assert files.fetch(source, file, tmp_path) == (path, False)
    options = {"clients": 4, "how": "iid"}
    dataset = _benchmark.find(name).load(seed=0, data_dir=tmp_path, options=options)
    assert len(dataset.clients) == 4
    x = torch.cat([client.take(slice(None))[0] for client in dataset.clients.values()])
    y = torch.cat([client.labels for client in dataset.clients.values()])
    assert x.shape == (len(expected), 3, 32, 32)
    order = torch.cat([client.rows for client in dataset.clients.values()])
    pictures = expected[order.numpy(), coarse + 1 :].reshape(-1, 3, 32, 32)
    assert x.numpy() == pytest.approx(pictures / 127.5 - 1, abs=1e-6)
    assert y.tolist() == expected[order.numpy(), coarse].tolist()
    assert dataset.test.y.tolist() == held_out[:, coarse].tolist()
    assert dataset.test.x.numpy().min() == -1.0
    assert dataset.num_classes == (40 if coarse else 10)  # of 100 classes, these are in the files


def test_a_damaged_archive_is_not_opened(small, tmp_path):
    name, source, *_ = small
    path, _ = files.fetch(source, source.files[0], tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BadData, match=f"should hold .* run 'fedcore data fetch {name}'"):
        _benchmark.find(name).load(seed=0, data_dir=tmp_path, options={})


def test_it_trains_the_convolutional_network(small, tmp_path):
    from fedcore.cli.grid import run_grid
    from fedcore.config import resolve

    name, source, *_ = small
    files.fetch(source, source.files[0], tmp_path)
    given = {"benchmark": name, "data": {"clients": 3, "how": "dirichlet", "alpha": 5.0}}
    given |= {"rounds": 1, "epochs": 1, "clients_per_round": 2, "strategies": ("tempo",)}
    given |= {"stragglers": (30.0,), "data_dir": str(tmp_path)}
    known = resolve(
        given, lambda benchmark, preset: _benchmark.find(benchmark).hyperparameters(preset)
    )
    assert known.model == "cnn"
    run_grid(known, tmp_path / "out")
    assert (tmp_path / "out" / "rounds.jsonl").read_text().count("\n") == 1


def test_the_archive_is_the_one_that_its_authors_publish():
    (file,) = cifar10.SOURCE.files
    assert (file.name, file.published_name) == ("cifar-10-binary.tar.gz",) * 2
    assert (file.size, file.md5) == (170_052_171, "c32a1d4ab5d03f1284b67883e8d87530")
    assert file.urls == ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",)


def test_options_are_those_of_a_partition():
    with pytest.raises(BadOption, match="no data option named 'alfa'; did you mean 'alpha'"):
        _benchmark.find("cifar10").load(seed=0, data_dir=None, options={"alfa": 1})
