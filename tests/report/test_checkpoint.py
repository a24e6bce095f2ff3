import json

import numpy as np
import pytest
import torch

from fedcore.errors import BadRecord
from fedcore.records import RunKey, Snapshot
from fedcore.report.output import load_checkpoint as load
from fedcore.report.output import save_checkpoint as save

RUN = RunKey("b", "fedcore", 30.0, 0)
TENSORS = {
    "param/layer.weight": torch.randn(2, 3, generator=torch.manual_seed(0)),
    "halved": torch.tensor([[1.5, -0.0], [float("nan"), 3e38]]).to(torch.bfloat16),
    "scalar": torch.tensor(2.5, dtype=torch.bfloat16),
    "double": torch.tensor(1 / 3, dtype=torch.float64),
    "eight": torch.tensor([1.0, -2.0]).to(torch.float8_e4m3fn),
    "turned": torch.arange(6).reshape(2, 3).T,  # not contiguous
    "mask": torch.tensor([True, False]),
    "empty": torch.empty(0, 4, dtype=torch.bfloat16),
}
META = {"version": 7, "memory": {"3": [1, None, "ä"]}}


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def test_a_snapshot_comes_back_bit_for_bit(tmp_path):
    save(tmp_path / "checkpoint.npz", RUN, 8, Snapshot(TENSORS, META))
    run, number, snapshot = load(tmp_path / "checkpoint.npz")
    assert (run, number, snapshot.meta) == (RUN, 8, META)
    assert list(snapshot.tensors) == list(TENSORS)
    for name, tensor in TENSORS.items():
        found = snapshot.tensors[name]
        assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(bits(found), bits(tensor))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.npz"]


def test_without_a_checkpoint_there_is_none(tmp_path):
    assert load(tmp_path / "checkpoint.npz") is None


def test_a_checkpoint_of_an_earlier_version_is_read(tmp_path):
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    run = '{"benchmark": "b", "strategy": "fedcore", "stragglers": 30.0, "seed": 0}'
    content = {"run": run, "round": 4, "param/layer.weight": weight}
    np.savez(tmp_path / "checkpoint.npz", **content)
    found, number, snapshot = load(tmp_path / "checkpoint.npz")
    assert (found, number, snapshot.meta) == (RUN, 4, {"version": 4, "jobs": []})
    assert list(snapshot.tensors) == ["param/layer.weight"]
    assert np.array_equal(snapshot.tensors["param/layer.weight"].numpy(), weight)


def refused(path):
    with pytest.raises(BadRecord, match=r"checkpoint.npz' is damaged .*; delete it and resume"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"PK", b"\x93NUMPY", b"not a zip at all", b"\0" * 999])
def test_what_is_no_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "checkpoint.npz").write_bytes(content)
    refused(tmp_path / "checkpoint.npz")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_part_of_a_checkpoint_is_refused(tmp_path, share):
    path = tmp_path / "checkpoint.npz"
    save(path, RUN, 8, Snapshot(TENSORS, META))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    refused(path)


@pytest.mark.parametrize(
    "name", ["tensor/param/layer.weight", "tensor/halved", "run", "round", "meta", "check"]
)
def test_content_that_was_changed_is_refused(tmp_path, name):
    path = tmp_path / "checkpoint.npz"
    save(path, RUN, 8, Snapshot(TENSORS, META))
    with np.load(path) as content:
        arrays = {key: content[key] for key in content.files}
    texts = {"meta": json.dumps({"types": {}, "values": {}}), "run": "{}", "check": "0"}
    arrays[name] = np.array(texts[name]) if name in texts else arrays[name] + 1
    np.savez(path, **arrays)
    refused(path)


def test_a_lost_tensor_or_another_shape_is_noticed(tmp_path):
    path = tmp_path / "checkpoint.npz"
    for change in ("shape", "lost"):
        save(path, RUN, 8, Snapshot(TENSORS, META))
        with np.load(path) as content:
            arrays = {key: content[key] for key in content.files}
        weight = arrays.pop("tensor/param/layer.weight")
        if change == "shape":
            arrays["tensor/param/layer.weight"] = weight.reshape(3, 2)
        np.savez(path, **arrays)
        refused(path)


def test_a_pickle_is_not_opened(tmp_path):
    array = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "checkpoint.npz", run=array, allow_pickle=True)
    refused(tmp_path / "checkpoint.npz")
