"""Every snippet and command of docs/own-data.md runs, on small data where it names large ones."""

import hashlib
import io
import json
import re
import shlex
import sys
import tarfile
import types
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fedcore.datasets import cifar10, mnist
from fedcore.sources import idx
from fedcore.sources.files import DataFile, Source
from fedcore.sources.partitions import partitioned

PAGE = (Path(__file__).parents[1] / "docs" / "own-data.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
BLOCKS = re.findall(r"```\n(fedcore.*?)```", PAGE, flags=re.S)
COMMANDS = [line for block in BLOCKS for line in block.splitlines()]
QUICK = "--rounds 1 --epochs 1 --batch-size 16 --strategies tempo --stragglers 30"
QUICK += " --evaluate-samples 50 --clients-per-round 2 --no-plots"


def run(snippet):
    exec(compile(snippet, "own-data.md", "exec"), {})


@pytest.fixture(autouse=True)
def _here(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("FEDCORE_DATA", raising=False)
    (tmp_path / "own.py").write_text(SNIPPETS[3])


def test_a_partition_and_a_run(capsys):
    run(SNIPPETS[0])
    accuracy, time = capsys.readouterr().out.split()
    assert float(accuracy) > 0.8
    assert 0 < float(time) <= 20


@pytest.mark.parametrize("number", [1, 2])
def test_clients_that_are_datasets_learn(capsys, number):
    run(SNIPPETS[number])
    assert float(capsys.readouterr().out) > 0.85


def test_a_file_of_ones_own_and_what_it_left(capsys):
    from fedcore.cli.grid import run_grid
    from fedcore.config import resolve

    options = {"how": "shards", "clients": 50, "classes": 3}
    given = {"benchmark": "own.py", "data": options, "rounds": 2, "epochs": 1}
    given |= {"strategies": ("tempo",), "stragglers": (30.0,)}
    run_grid(resolve(given, lambda name, preset: {}), Path("runs/own"))
    assert len(SNIPPETS) == 5
    run(SNIPPETS[4])
    assert capsys.readouterr().out.startswith("tempo 0 ")


def small_cifar(folder, monkeypatch):
    made, draw = io.BytesIO(), np.random.default_rng(0)
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name in ("data_batch_1.bin", "test_batch.bin"):
            labels = np.arange(3000)[:, None] % 10
            rows = np.hstack([labels, draw.integers(256, size=(3000, 3072))]).astype(np.uint8)
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.size = rows.nbytes
            archive.addfile(entry, io.BytesIO(rows.tobytes()))
    (folder / "small.tar.gz").write_bytes(content := made.getvalue())
    url, md5 = (folder / "small.tar.gz").as_uri(), hashlib.md5(content).hexdigest()
    file = DataFile("small.tar.gz", len(content), md5, (url,), unpacked=False)
    source = Source("cifar10", (file,))
    monkeypatch.setattr(cifar10, "SOURCE", source)
    monkeypatch.setattr(cifar10, "load", partitioned(partial(cifar10.samples, source, 0)))


def small_hub(monkeypatch):
    draw = np.random.default_rng(0)
    columns = {
        "sentence": np.array([f"so {n}" for n in range(2000)]),
        "image": draw.integers(256, size=(2000, 4, 4, 3)).astype(np.uint8),
        "label": np.arange(2000) % 2,
        "user": np.arange(2000) % 7,
    }

    class Whole:
        column_names = tuple(columns)

        def select_columns(self, names):
            return self

        def with_format(self, kind):
            return self

        def __getitem__(self, key):
            return columns

    hub = types.ModuleType("datasets")
    hub.load_dataset = lambda name, cache_dir: {"train": Whole(), "validation": Whole()}
    monkeypatch.setitem(sys.modules, "datasets", hub)


def leaf_files(folder):
    tweet = ["1", "Mon", "NO_QUERY", "ann", "so it goes", "training"]
    kinds = {"femnist": ([[0.5] * 784] * 6, [0, 61, 3] * 2), "sent140": ([tweet] * 6, [0, 1] * 3)}
    for name, (x, y) in kinds.items():
        users = {f"user {n}": {"x": x, "y": y} for n in range(4)}
        whole = {"users": list(users), "num_samples": [6] * 4, "user_data": users}
        for part in ("train", "test"):
            (folder / name / "data" / part).mkdir(parents=True)
            (folder / name / "data" / part / "all.json").write_text(json.dumps(whole))


@pytest.mark.slow
def test_every_command_runs(tmp_path, monkeypatch, image_source):
    typer = pytest.importorskip("typer.testing")
    from fedcore.cli.main import app

    small_cifar(tmp_path, monkeypatch)
    small_hub(monkeypatch)
    leaf_files(tmp_path)
    source, place = image_source
    monkeypatch.setenv("FEDCORE_DATA", str(place))
    monkeypatch.setattr(mnist, "load", partial(idx.load, source, seed=0, clients=20))
    assert len(COMMANDS) == 8
    for command in COMMANDS:
        words = shlex.split(command)[1:]
        words += shlex.split(QUICK) if words[0] == "compare" else []
        result = typer.CliRunner().invoke(app, words)
        assert result.exit_code == 0, (command, result.output, result.exception)
        if words[0] == "compare":
            out = Path(words[words.index("--out") + 1])
            assert (out / "rounds.jsonl").read_text().count("\n") == 1
