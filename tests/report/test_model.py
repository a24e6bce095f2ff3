"""The last model of a run, as a file."""

import builtins
import json

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


@pytest.fixture
def bare(monkeypatch):
    """A machine without safetensors."""
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("safetensors"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)


def same(one, other):
    assert set(one) == set(other)
    for name, value in other.items():
        assert one[name].dtype == value.dtype
        assert torch.equal(one[name], value)


def test_a_model_is_a_safetensors_file_with_its_run_in_the_header(tmp_path):
    reader = pytest.importorskip("safetensors", reason="safetensors is not installed")
    save_model(tmp_path, RUN, 7, MODEL)
    path = tmp_path / "model-fedcore-12.5-seed-3-0.01.safetensors"
    assert [item.name for item in tmp_path.iterdir()] == [path.name]
    with reader.safe_open(path, "pt") as file:
        same({name: file.get_tensor(name) for name in file.keys()}, MODEL)  # noqa: SIM118
        about = file.metadata()
    assert about["strategy"] == "fedcore"
    assert about["round"] == "7"
    same(load_model(tmp_path, RUN), MODEL)


def test_on_a_bare_machine_it_has_the_form_of_a_checkpoint(tmp_path, bare):
    save_model(tmp_path, RUN, 7, MODEL)
    assert [item.name for item in tmp_path.iterdir()] == ["model-fedcore-12.5-seed-3-0.01.npz"]
    same(load_model(tmp_path, RUN), MODEL)


def test_what_is_no_model_is_one_sentence(tmp_path):
    for content in (None, b"nothing"):
        if content is not None:
            (tmp_path / model_name(RUN)).write_bytes(content)
        with pytest.raises(BadRecord, match=r"cannot be read \(.*\); delete the folder and train"):
            load_model(tmp_path, RUN)


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
        params = load_model(tmp_path / "job", run)
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
