import gzip
import json

import pytest
import torch

from fedcore.datasets import shakespeare
from fedcore.datasets.leaf import read_users
from fedcore.errors import BadData


def content(**changes):
    users = {
        "users": ["ann", "bob", "nobody"],
        "num_samples": [2, 1, 0],
        "user_data": {
            "ann": {"x": [[0.5, 1], [2, 3]], "y": [0, 2]},
            "bob": {"x": [[4, 5]], "y": [1.0]},
            "nobody": {"x": [], "y": []},
        },
    }
    return {**users, **changes}


def write(path, data):
    path.write_text(json.dumps(data))
    return path


def with_ann(x, y, count=None):
    return content(
        users=["ann"],
        num_samples=[len(y) if count is None else count],
        user_data={"ann": {"x": x, "y": y}},
    )


def test_numbers_become_float_tensors(tmp_path):
    users = read_users(write(tmp_path / "a.json", content()))
    assert list(users) == ["ann", "bob"]
    assert torch.equal(users["ann"].x, torch.tensor([[0.5, 1.0], [2.0, 3.0]]))
    assert torch.equal(users["ann"].y, torch.tensor([0, 2]))
    assert users["bob"].y.dtype == torch.int64


def test_texts_become_windows(tmp_path):
    users = read_users(write(tmp_path / "a.json", with_ann(["abc", "bcd"], ["d", "e"])))
    assert torch.equal(users["ann"].x[1], shakespeare.encode("bcd"))
    assert torch.equal(users["ann"].y, shakespeare.encode("de").long())


def test_a_gzipped_file_is_read(tmp_path):
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(json.dumps(content()).encode()))
    assert len(read_users(tmp_path / "a.json.gz")["ann"]) == 2


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([1, 2], "holds a list"),
        (content(users=None), "has no list 'users'"),
        (content(user_data=[]), "has no table 'user_data'"),
        ({"users": [], "user_data": {}}, "has no list 'num_samples'"),
        (content(num_samples=[2]), "3 users but 1 num_samples"),
        (content(users=["ann", "bob", 3]), "names are not text, or there twice"),
        (content(users=["ann", "bob", "ann"]), "names are not text, or there twice"),
        (content(users=["ann", "bob", "eve"]), "user 'eve' .* has no lists 'x' and 'y'"),
        (content(num_samples=[2, 3, 0]), "user 'bob' .* has 1 samples, but num_samples says 3"),
        (with_ann([[1], [2]], [0]), "2 inputs but 1 labels"),
        (with_ann([[1], [2, 3]], [0, 1]), "inputs of user 'ann' .* must be one array of numbers"),
        (with_ann(["abc", [1]], [0, 1]), "inputs of user 'ann' .* must be"),
        (with_ann([[1], None], [0, 1]), "inputs of user 'ann' .* must be"),
        (with_ann([[10**400]], [0]), "inputs of user 'ann' .* must be numbers"),
        (with_ann(["abc", "ab"], [0, 1]), "texts of different lengths"),
        (with_ann([[1]], [-1]), "labels of user 'ann' .* must be from 0, got -1"),
        (with_ann([[1]], [0.5]), "labels of user 'ann' .* whole numbers, got 0.5 for sample 0"),
        (with_ann([[1]], [[0]]), "labels of user 'ann' .* must be one class per sample"),
        (with_ann([[1]], [""]), "labels of user 'ann' .* must be numbers, got <U1"),
        (with_ann([[1], [2]], [[0], [0, 1]]), "labels of user 'ann' .* must be one array"),
        (with_ann([[1]], [float("nan")]), "labels of user 'ann' .* must be whole numbers, got nan"),
        (with_ann([[1]], [1e300]), r"labels of user 'ann' .* must be whole numbers, got 1e\+300"),
        (with_ann([[1]], [10**30]), "labels of user 'ann' .* must be numbers, got object; number"),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path, data, why):
    path = write(tmp_path / "bad.json", data)
    with pytest.raises(BadData, match=why) as refused:
        read_users(path)
    assert "bad.json" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("a.json", b"{"),
        ("a.json", b"\xff\xfe\xfa"),
        ("a.json", b"[" * 100_000),
        ("a.json", b"9" * 5000),
        ("a.json.gz", b"plain"),
        ("a.json.gz", gzip.compress(b"{}", mtime=0)[:-4]),
    ],
)
def test_what_is_not_json_is_refused(tmp_path, name, raw):
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(BadData, match="cannot be read as JSON"):
        read_users(tmp_path / name)
