import json

import pytest
import torch

from fedcore.datasets import leaf
from fedcore.datasets.shakespeare import encode
from fedcore.errors import BadData, BadOption, DatasetUnavailable
from fedcore.sources import benchmark as _benchmark


def write(path, users):
    """A LEAF file from {user: (inputs, labels)}."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "users": list(users),
        "num_samples": [len(y) for _, y in users.values()],
        "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
    }
    path.write_text(json.dumps(content))


def numbers(count, start=0.0):
    return [[start + i, 0.5, 1, 2] for i in range(count)], [i % 3 for i in range(count)]


def test_train_and_test_folders_are_taken_as_they_are(tmp_path):
    write(tmp_path / "train" / "a.json", {"ann": numbers(4)})
    write(tmp_path / "train" / "b.json", {"bob": numbers(2)})
    write(tmp_path / "test" / "a.json", {"ann": numbers(1, 50.0), "bob": numbers(2, 60.0)})
    dataset = leaf.load(data_dir=tmp_path)
    assert [len(data) for data in dataset.clients.values()] == [4, 2]
    assert dataset.test.x[:, 0].tolist() == [50.0, 60.0, 61.0]
    assert dataset.num_classes == 3
    assert list(dataset.sizes) == [5, 4]


@pytest.mark.parametrize("single", [True, False])
def test_files_without_a_split_are_split_by_a_seed(tmp_path, single):
    write(tmp_path / "all.json", {"ann": numbers(20), "bob": numbers(1)})
    place = tmp_path / "all.json" if single else tmp_path
    dataset = leaf.load(data_dir=place, seed=1, train=0.8)
    assert [len(data) for data in dataset.clients.values()] == [16, 1]
    seen = torch.cat([dataset.clients[0].x[:, 0], dataset.test.x[:, 0]])
    assert sorted(seen.tolist()) == list(range(20))
    assert list(dataset.sizes) == [20, 1]
    again, other = (leaf.load(data_dir=place, seed=seed, train=0.8) for seed in (1, 2))
    assert torch.equal(dataset.test.x, again.test.x)
    assert not torch.equal(dataset.test.x, other.test.x)


def test_without_test_samples_there_is_no_test_set(tmp_path):
    write(tmp_path / "all.json", {"ann": numbers(3)})
    assert leaf.load(data_dir=tmp_path, train=1).test is None


def test_texts_have_a_class_for_each_symbol(tmp_path):
    write(tmp_path / "all.json", {"ann": (["abc", "bcd", "cde"], ["d", "e", "f"])})
    dataset = leaf.load(data_dir=tmp_path)
    assert dataset.num_classes == 90
    assert dataset.clients[0].x.dtype == torch.uint8


def test_inputs_take_the_shape_that_is_asked_for(tmp_path):
    write(tmp_path / "all.json", {"ann": numbers(3)})
    benchmark = _benchmark.find("leaf")
    options = {"shape": "1x2x2", "classes": 7}
    dataset = benchmark.load(seed=0, data_dir=tmp_path, options=options)
    assert dataset.clients[0].x.shape == (2, 1, 2, 2)
    assert dataset.num_classes == 7


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"shape": "3x3"}, "shape must have as many numbers as an input, which is 4"),
        ({"shape": "2by2"}, "shape must look like 1x28x28, got '2by2'"),
        ({"shape": "0x4"}, "shape must have as many numbers as an input"),
        ({"train": 0}, "train must be a share above 0"),
        ({"train": 1.5}, "train must be a share above 0"),
        ({"train": "most"}, "train must be a share above 0"),
        ({"classes": -1}, "classes must be at least 0, got -1"),
        ({"classes": 2.5}, "classes must be a whole number"),
        ({"shape": "２x2"}, "shape must look like"),
    ],
)
def test_bad_options_are_refused(tmp_path, options, why):
    write(tmp_path / "all.json", {"ann": numbers(3)})
    with pytest.raises(BadOption, match=why):
        leaf.load(data_dir=tmp_path, **options)


@pytest.mark.parametrize(
    ("users", "why"),
    [
        ({"ann": numbers(3), "bob": ([[1, 2]], [0])}, r"user 'bob' has inputs of shape \[2\]"),
        ({"ann": numbers(3), "bob": (["abcd"], ["e"])}, "and type uint8, but user 'ann' of shape"),
        ({"ann": ([], [])}, "no user with a sample to train on"),
        ({}, "no user with a sample to train on"),
    ],
)
def test_data_that_does_not_go_together_is_refused(tmp_path, users, why):
    write(tmp_path / "all.json", users)
    with pytest.raises(BadData, match=why):
        leaf.load(data_dir=tmp_path)


def test_a_user_in_two_files_is_refused(tmp_path):
    for name in ("a.json", "b.json"):
        write(tmp_path / name, {"ann": numbers(3)})
    with pytest.raises(BadData, match=r"user 'ann' in '.*b.json' is in an earlier file too"):
        leaf.load(data_dir=tmp_path)


def test_nothing_to_read_is_said(tmp_path):
    with pytest.raises(DatasetUnavailable, match="--data-dir"):
        leaf.load()
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DatasetUnavailable, match=r"no \.json files in"):
            leaf.load(data_dir=place)


def test_hyperparameters_name_a_model_that_takes_anything():
    assert _benchmark.find("leaf").hyperparameters("paper")["model"] == "logistic"
    with pytest.raises(BadOption, match="leaf-femnist"):
        _benchmark.find("leaf-femnist")


def test_femnist_is_pictures_of_a_shape(tmp_path):
    """LEAF's own format: 784 numbers from 0 to 1, classes 0 to 61."""
    pictures = [[n / 784] * 784 for n in range(4)]
    write(tmp_path / "all.json", {"f0001_41": (pictures, [0, 61, 10, 36])})
    options = {"shape": "1x28x28", "classes": 62, "train": 0.5}
    dataset = _benchmark.find("leaf").load(seed=0, data_dir=tmp_path, options=options)
    assert dataset.clients[0].x.shape == (2, 1, 28, 28)
    assert dataset.num_classes == 62


def test_sent140_is_the_text_of_tweets_by_characters(tmp_path):
    """LEAF's own format: id, date, query, user, text, part; 1 is a good mood."""

    def tweet(text):
        return ["12", "Mon May 11", "NO_QUERY", "ann", text, "training"]

    users = {"ann": ([tweet("oh no"), tweet("yes yes yes")], [0, 1]), "bob": ([tweet("")], [0])}
    write(tmp_path / "all.json", users)
    options = {"length": 8, "classes": 2, "train": 1}
    dataset = _benchmark.find("leaf").load(seed=0, data_dir=tmp_path, options=options)
    assert dataset.clients[0].x.dtype == torch.uint8
    texts = {bytes(row.tolist()) for row in dataset.clients[0].x}
    assert texts == {bytes([0] * 3 + encode("oh no").tolist()), bytes(encode("yes yes ").tolist())}
    assert dataset.clients[1].x.tolist() == [[0] * 8]
    assert sorted(dataset.clients[0].y.tolist()) == [0, 1]
    with pytest.raises(BadData, match="texts of different lengths"):
        leaf.load(data_dir=tmp_path)
