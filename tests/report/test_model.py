"""The last model of a run, as a file."""

import json
import struct

import pytest
import torch

from fedcore.cli.grid import run_grid, runs_of
from fedcore.config import Experiment
from fedcore.errors import BadRecord
from fedcore.records import RunKey
from fedcore.report.output import OutputFolder, load_model, model_name, save_model

RUN = RunKey("b", "fedcore", 12.5, 3, learning_rate=0.01)
MODEL = {
    "layer.weight": torch.arange(6.0).reshape(2, 3).t(),  # not contiguous
    "layer.bias": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "frozen": torch.tensor(7),
}


def same(one, other):
    assert set(one) == set(other)
    for name, value in other.items():
        assert one[name].dtype == value.dtype
        assert torch.equal(one[name], value)


def test_what_is_written_is_what_the_library_reads(tmp_path):
    library = pytest.importorskip("safetensors", reason="safetensors is not installed")
    path = tmp_path / model_name(RUN)
    assert path.name == "model-fedcore-12.5-seed-3-0.01.safetensors"
    save_model(path, MODEL, {"strategy": "fedcore", "round": 7})
    assert [item.name for item in tmp_path.iterdir()] == [path.name]
    with library.safe_open(path, "pt") as file:
        same({name: file.get_tensor(name) for name in file.keys()}, MODEL)  # noqa: SIM118
        about = file.metadata()
        assert len(about.pop("check")) == 32
        assert about == {"strategy": "fedcore", "round": "7"}


def test_what_the_library_writes_is_read(tmp_path):
    torch_form = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    plain = {name: value.contiguous() for name, value in MODEL.items()}
    torch_form.save_file(plain, tmp_path / "model.safetensors", {"any": "thing"})
    same(load_model(tmp_path / "model.safetensors"), MODEL)


def test_bytes_are_where_the_format_has_them(tmp_path):
    """By its description: a length in 8 bytes, JSON up to a multiple of 8, values from there on."""
    path = tmp_path / "model.safetensors"
    save_model(path, {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([[3]])}, {})
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert length % 8 == 0
    assert header["a"] == {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    assert header["b"] == {"dtype": "I64", "shape": [1, 1], "data_offsets": [8, 16]}
    assert content[8 + length :] == struct.pack("<ffq", 1.0, 2.0, 3)
    same(load_model(path), {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([[3]])})


def test_what_is_no_model_is_one_sentence(tmp_path):
    for content in (None, b"nothing"):
        if content is not None:
            (tmp_path / "model").write_bytes(content)
        with pytest.raises(BadRecord, match=r"cannot be read \(.*\); train that run again"):
            load_model(tmp_path / "model")


SMALL = Experiment(
    rounds=3, epochs=1, clients_per_round=2, stragglers=(30.0,), data={"clients": 4}, device="cpu"
)


def test_the_file_holds_the_model_that_the_last_round_was_measured_with(tmp_path):
    from fedcore.cli.grid import prepare
    from fedcore.sim.measure import Measure

    content, _ = run_grid(SMALL, tmp_path / "job")
    federation = prepare(SMALL)[0]
    measure = Measure(federation, 0, torch.device("cpu"), 1, split=False)
    for run, result in zip(runs_of(SMALL), content["results"], strict=True):
        params = load_model(tmp_path / "job" / model_name(run))
        assert set(params) == set(federation.task.model.state_dict())
        federation.task.model.load_state_dict(params)
        assert measure.test(params).accuracy == result["final_test_accuracy"]


def test_another_job_in_the_folder_takes_models_with_it(tmp_path):
    out = tmp_path / "job"
    run_grid(SMALL, out)
    (out / "notes.safetensors").touch()
    OutputFolder.create(
        out, json.loads((out / "experiment.json").read_text()), overwrite=True
    ).begin()
    assert {path.name for path in out.iterdir()} == {"experiment.json", "notes.safetensors"}
