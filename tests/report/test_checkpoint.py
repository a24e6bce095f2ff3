import json

import pytest
import torch

from fedcore.errors import BadRecord
from fedcore.records import RunKey, Snapshot
from fedcore.report.output import OutputFolder
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
    save(tmp_path / "checkpoint.safetensors", RUN, 8, Snapshot(TENSORS, META))
    run, number, snapshot = load(tmp_path / "checkpoint.safetensors")
    assert (run, number, snapshot.meta) == (RUN, 8, META)
    assert list(snapshot.tensors) == list(TENSORS)
    for name, tensor in TENSORS.items():
        found = snapshot.tensors[name]
        assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(bits(found), bits(tensor))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]


def test_without_a_checkpoint_there_is_none(tmp_path):
    assert load(tmp_path / "checkpoint.safetensors") is None


def refused(path):
    with pytest.raises(
        BadRecord, match=r"checkpoint\.safetensors' is damaged .*; delete it and resume"
    ):
        load(path)


@pytest.mark.parametrize("content", [b"", b"PK", b"\x93NUMPY", b"not a zip at all", b"\0" * 999])
def test_what_is_no_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "checkpoint.safetensors").write_bytes(content)
    refused(tmp_path / "checkpoint.safetensors")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_part_of_a_checkpoint_is_refused(tmp_path, share):
    path = tmp_path / "checkpoint.safetensors"
    save(path, RUN, 8, Snapshot(TENSORS, META))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    refused(path)


def rewritten(path, change):
    """The file with another header, and the same data behind it."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    change(header, header["__metadata__"])
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[start:])


CHANGES = {
    "run": lambda header, about: about.update(run="{}"),
    "round": lambda header, about: about.update(round="9"),
    "values": lambda header, about: about.update(values="{}"),
    "check": lambda header, about: about.update(check="0"),
    "no check": lambda header, about: about.pop("check"),
    "shape": lambda header, about: header["param/layer.weight"].update(shape=[3, 2]),
    "lost": lambda header, about: header.pop("param/layer.weight"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_header_that_was_changed_is_refused(tmp_path, change):
    path = tmp_path / "checkpoint.safetensors"
    save(path, RUN, 8, Snapshot(TENSORS, META))
    rewritten(path, lambda header, about: None)
    assert load(path)[1] == 8  # what makes the difference is the change
    rewritten(path, CHANGES[change])
    refused(path)


@pytest.mark.parametrize("place", [-1, -40, -90])
def test_data_that_was_changed_is_refused(tmp_path, place):
    path = tmp_path / "checkpoint.safetensors"
    save(path, RUN, 8, Snapshot(TENSORS, META))
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    refused(path)


def test_a_checkpoint_of_an_earlier_version_is_named_and_goes_with_its_job(tmp_path, caplog):
    asked = {"rounds": 3}
    OutputFolder.create(tmp_path, asked).begin()
    old = tmp_path / "checkpoint.npz"
    old.write_bytes(b"")
    OutputFolder.resume(tmp_path, asked, [RUN])
    assert "checkpoint.npz is of an earlier version: the run it belongs to begins" in caplog.text
    OutputFolder.create(tmp_path, asked, overwrite=True).begin()
    assert not old.exists()
