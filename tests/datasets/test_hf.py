"""Hugging Face data: through a stand-in for the package, and through itself where it is there."""

import sys
import types

import numpy as np
import pytest
import torch

from fedcore.errors import BadData, BadOption
from fedcore.sources.benchmark import find


class Split:
    """What we use of a datasets.Dataset: columns, some of them, as arrays."""

    def __init__(self, columns):
        self.columns, self.column_names = columns, list(columns)

    def select_columns(self, names):
        return Split({name: self.columns[name] for name in names})

    def with_format(self, kind):
        assert kind == "numpy"
        return self

    def __getitem__(self, key):
        assert key == slice(None)
        return self.columns


DRAW = np.random.default_rng(0)
PICTURES = DRAW.integers(256, size=(30, 6, 5, 3)).astype(np.uint8)
TRAIN = {
    "image": PICTURES,
    "grey": PICTURES[..., 0],
    "vector": DRAW.normal(size=(30, 4)).astype(np.float32),
    "text": np.array([f"number {n}" for n in range(30)]),
    "label": np.arange(30) % 3,
    "name": np.array(["cat", "dog", "ant"])[np.arange(30) % 3],
    "user": np.array(["ann", "bob"])[np.arange(30) % 2],
    "object": np.array([[1], [2, 3]] * 15, dtype=object),
}
TEST = {name: column[:6] for name, column in TRAIN.items()}


@pytest.fixture
def hub(monkeypatch):
    """A stand-in that serves one dataset, and notes what it was asked for."""
    module = types.ModuleType("datasets")
    module.asked, module.splits = [], {"train": Split(TRAIN), "test": Split(TEST)}

    def load_dataset(name, cache_dir):
        module.asked.append((name, cache_dir))
        if name != "owner/data":
            raise ConnectionError(f"Couldn't reach {name!r}\non the Hub")
        return module.splits

    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    return module


def load(data_dir=None, name="hf:owner/data", **options):
    return find(name).load(seed=0, data_dir=data_dir, options={"clients": 5, **options})


def pooled(dataset):
    rows = torch.cat([client.rows for client in dataset.clients.values()])
    x = torch.cat([client.take(slice(None))[0] for client in dataset.clients.values()])
    return rows.numpy(), x.numpy(), torch.cat([c.labels for c in dataset.clients.values()]).numpy()


def test_pictures_become_numbers_with_channels_first(hub, tmp_path):
    dataset = load(tmp_path, inputs="image", labels="label", how="iid")
    assert hub.asked == [("owner/data", str(tmp_path))]
    rows, x, y = pooled(dataset)
    assert x == pytest.approx(np.transpose(PICTURES[rows], (0, 3, 1, 2)) / 255)
    assert y.tolist() == (rows % 3).tolist()
    assert (len(dataset.test), dataset.num_classes, len(dataset.clients)) == (6, 3, 5)
    grey = load(inputs="grey", labels="label").test.x
    assert grey[:, 0].numpy() == pytest.approx(PICTURES[:6, :, :, 0] / 255)


def test_numbers_stay_and_classes_by_name_are_numbered(hub):
    rows, x, y = pooled(load(inputs="vector", labels="name"))
    assert x == pytest.approx(TRAIN["vector"][rows])
    assert np.array(["ant", "cat", "dog"])[y].tolist() == TRAIN["name"][rows].tolist()


def test_texts_become_symbols_padded_in_front(hub):
    dataset = load(inputs="text", labels="label", length=9)
    assert dataset.test.x.dtype == torch.uint8
    assert dataset.test.x.shape == (6, 9)
    assert dataset.test.x[0, 0] == 0  # 'number 0' has eight symbols
    cut = load(inputs="text", labels="label", length=3).test.x
    assert torch.equal(cut[0], cut[1])  # 'num'


def test_a_client_for_every_owner_and_a_share_held_out(hub):
    del hub.splits["test"]
    dataset = load(inputs="vector", labels="label", owners="user", how="by", held_out=0.2)
    assert len(dataset.clients) == 2
    assert 0 < len(dataset.test) < 15
    for number, client in dataset.clients.items():
        assert set((client.rows % 2).tolist()) == {number}


def test_texts_train_the_character_lstm(hub, tmp_path):
    from fedcore.cli.grid import run_grid
    from fedcore.config import resolve

    data = {"inputs": "text", "labels": "name", "clients": 3, "length": 6, "how": "iid"}
    given = {"benchmark": "hf:owner/data", "data": data, "model": "char-lstm", "rounds": 1}
    given |= {"epochs": 1, "strategies": ("tempo",), "stragglers": (30.0,)}
    run_grid(resolve(given, lambda name, preset: find(name).hyperparameters(preset)), tmp_path)
    assert "hf:owner/data" in (tmp_path / "rounds.jsonl").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "hf:nobody/none"}, "loading hf:nobody/none failed with ConnectionError"),
        ({"name": "hf:"}, r"loading hf: failed .*check the name"),
        ({"inputs": "imag"}, r"inputs \(a column\) must be one of image, grey"),
        ({"labels": ""}, r"labels \(a column\) must be one of"),
        ({"owners": "nobody"}, r"owners \(a column\) must be one of"),
        ({"train": "all"}, "train must be one of train, test, got 'all'"),
        ({"test": "validation"}, "test must be one of train, test, got 'validation'"),
        ({"inputs": "text", "length": 0}, "length must be at least 1"),
        ({"inputs": "text", "length": "long"}, "length must be a whole number"),
        ({"inputs": "object"}, "inputs of training data must be"),
        ({"labels": "vector"}, "labels must be one class"),
        ({"how": "bye"}, "how must be one of"),
        ({"alpha": "low"}, "alpha must be a number"),
        ({"columns": "x"}, "no data option named 'columns'"),
    ],
)
def test_wrong_uses_are_one_sentence(hub, options, said):
    with pytest.raises((BadOption, BadData), match=said) as caught:
        load(**{"inputs": "vector", "labels": "label", **options})
    assert "\n" not in str(caught.value)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadData, match="install FedCore with its extra 'data'"):
        load(inputs="vector", labels="label")


def test_the_package_itself_reads_a_folder(tmp_path, monkeypatch):
    """Small CSV files and pictures, read by what users have."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    datasets = pytest.importorskip("datasets")
    for split, count in (("train", 20), ("test", 6)):
        lines = [f"tweet {n},{'ab'[n % 2]},{n % 3},{n / 4}" for n in range(count)]
        (tmp_path / "data").mkdir(exist_ok=True)
        text = "\n".join(["text,mood,user,size", *lines])
        (tmp_path / "data" / f"{split}.csv").write_text(text)
    name = f"hf:{tmp_path / 'data'}"
    own = load(tmp_path / "cache", name, inputs="text", labels="mood", owners="user", how="by")
    assert [len(client) for client in own.clients.values()] == [7, 7, 6]
    assert own.test.y.tolist() == [0, 1] * 3
    pytest.importorskip("PIL")
    features = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["x", "y"])}
    from PIL import Image

    columns = {"image": [Image.fromarray(one) for one in PICTURES], "label": [0, 1] * 15}
    whole = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    whole.to_parquet(tmp_path / "pictures" / "train.parquet")
    name = f"hf:{tmp_path / 'pictures'}"
    rows, x, y = pooled(load(tmp_path / "cache", name, inputs="image", labels="label"))
    assert x == pytest.approx(np.transpose(PICTURES[rows], (0, 3, 1, 2)) / 255)
    assert y.tolist() == (rows % 2).tolist()
