import json

import numpy as np
import pytest
import torch

from fedcore.errors import BadOption, BadRecord
from fedcore.records import RunKey
from fedcore.report import output
from fedcore.report.output import CHECKPOINT, EXPERIMENT, ROUNDS, SUMMARY, OutputFolder
from fedcore.report.records import read_rows

RUN = RunKey("b", "fedcore", 30.0, 0)
OTHER = RunKey("b", "fedavg", 30.0, 0)
JOB = {"rounds": 3, "seed": (0,)}


def row(number, run=RUN):
    return {
        "benchmark": run.benchmark,
        "strategy": run.strategy,
        "stragglers": run.stragglers,
        "seed": run.seed,
        "round": number,
        "round_time": 0.9,
        "train_loss": 1.0,
        "train_accuracy": 0.5,
        "test_accuracy": 0.5,
        "participants": 1,
        "rejected": 0,
        "wall_seconds": 0.0,
    }


def params(value):
    return {"layer.weight": torch.full((2, 3), float(value))}


@pytest.fixture
def always_checkpoint(monkeypatch):
    monkeypatch.setattr(output, "CHECKPOINT_EVERY", -1.0)


def test_rounds_are_on_disk_as_they_come(tmp_path):
    folder = OutputFolder.create(tmp_path / "job", JOB)
    folder.add(row(1), RUN, params(1))
    assert len(read_rows(tmp_path / "job" / ROUNDS)) == 1
    assert not (tmp_path / "job" / SUMMARY).exists()


def test_a_finished_job_has_a_summary_and_no_checkpoint(tmp_path, always_checkpoint):
    folder = OutputFolder.create(tmp_path / "job", JOB)
    folder.add(row(1), RUN, params(1))
    assert (tmp_path / "job" / CHECKPOINT).exists()
    folder.finish()
    assert not (tmp_path / "job" / CHECKPOINT).exists()
    written = json.loads((tmp_path / "job" / SUMMARY).read_text())
    assert written["schema"] == 1
    assert written["results"][0]["strategy"] == "fedcore"


def test_an_interrupted_job_goes_on_after_its_last_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "job"
    monkeypatch.setattr(output, "CHECKPOINT_EVERY", -1.0)
    folder = OutputFolder.create(path, JOB)
    folder.add(row(1, OTHER), OTHER, params(9))
    folder.add(row(1), RUN, params(1))
    monkeypatch.setattr(output, "CHECKPOINT_EVERY", 1e9)
    folder.add(row(2), RUN, params(2))  # no checkpoint behind this one
    again = OutputFolder.resume(path, JOB)
    done, model = again.position(RUN, rounds=3)
    assert done == 1
    assert torch.equal(model["layer.weight"], params(1)["layer.weight"])
    assert [(r["strategy"], r["round"]) for r in read_rows(path / ROUNDS)] == [
        ("fedavg", 1),
        ("fedcore", 1),
    ]


def test_a_run_that_is_done_or_not_begun_needs_no_checkpoint(tmp_path):
    folder = OutputFolder.create(tmp_path / "job", JOB)
    for number in (1, 2, 3):
        folder.add(row(number), RUN, params(1))
    again = OutputFolder.resume(tmp_path / "job", JOB)
    assert again.position(RUN, rounds=3) == (3, None)
    assert again.position(OTHER, rounds=3) == (0, None)


def test_without_a_checkpoint_a_run_begins_anew(tmp_path):
    folder = OutputFolder.create(tmp_path / "job", JOB)
    folder.add(row(1), RUN, params(1))
    again = OutputFolder.resume(tmp_path / "job", JOB)
    assert again.position(RUN, rounds=3) == (0, None)
    assert again.rows == []


def test_another_jobs_folder_is_not_resumed(tmp_path):
    OutputFolder.create(tmp_path / "job", JOB)
    with pytest.raises(BadOption, match="rounds is 4 but the job in"):
        OutputFolder.resume(tmp_path / "job", {**JOB, "rounds": 4})


@pytest.mark.parametrize(("name", "here"), [("device", "cpu"), ("threads", 2), ("data_dir", "b")])
def test_another_machine_may_go_on(tmp_path, name, here):
    OutputFolder.create(tmp_path / "job", {**JOB, name: "there"}).add(row(1), RUN, params(1))
    assert len(OutputFolder.resume(tmp_path / "job", {**JOB, name: here}).rows) == 1


def test_an_option_that_a_job_does_not_know_yet_had_its_default(tmp_path):
    OutputFolder.create(tmp_path / "job", JOB).add(row(1), RUN, params(1))
    assert OutputFolder.resume(tmp_path / "job", {**JOB, "catch_up": 1.0}).rows
    with pytest.raises(BadOption, match=r"catch_up is 2.0 but the job in .* has 1.0"):
        OutputFolder.resume(tmp_path / "job", {**JOB, "catch_up": 2.0})


def test_a_folder_without_a_job_is_not_resumed(tmp_path):
    with pytest.raises(BadOption, match="holds no interrupted job"):
        OutputFolder.resume(tmp_path, JOB)


def test_a_damaged_job_is_not_resumed(tmp_path):
    OutputFolder.create(tmp_path / "job", JOB)
    for text in ("[1]", "{", "3"):
        (tmp_path / "job" / EXPERIMENT).write_text(text)
        with pytest.raises(BadOption, match="holds no interrupted job"):
            OutputFolder.resume(tmp_path / "job", JOB)


def test_a_pickle_in_place_of_a_checkpoint_is_not_opened(tmp_path, always_checkpoint):
    folder = OutputFolder.create(tmp_path / "job", JOB)
    folder.add(row(1), RUN, params(1))
    array = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "job" / CHECKPOINT, run=array, allow_pickle=True)
    with pytest.raises(BadRecord, match="is damaged"):
        OutputFolder.resume(tmp_path / "job", JOB).position(RUN, rounds=3)


def test_an_earlier_job_is_replaced_only_on_request(tmp_path):
    path = tmp_path / "job"
    OutputFolder.create(path, JOB).add(row(1), RUN, params(1))
    with pytest.raises(BadOption, match="--resume to go on with it or --overwrite"):
        OutputFolder.create(path, JOB)
    OutputFolder.create(path, JOB, overwrite=True)
    assert not (path / ROUNDS).exists()


def test_overwriting_leaves_the_users_own_files_in_the_folder(tmp_path, always_checkpoint):
    path = tmp_path / "job"
    OutputFolder.create(path, JOB).add(row(1), RUN, params(1))
    (path / "plots").mkdir()
    for name in ("notes.txt", "plots/mine.png", "loss.png", "client_times.png", SUMMARY):
        (path / name).write_text("written")
    OutputFolder.create(path, JOB, overwrite=True)
    left = {str(item.relative_to(path)) for item in path.rglob("*")}
    assert left == {"experiment.json", "notes.txt", "plots", "plots/mine.png"}


def test_a_link_to_a_folder_is_the_folder(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    OutputFolder.create(link, JOB).add(row(1), RUN, params(1))  # the folder is not there yet
    assert (real / ROUNDS).exists()
    OutputFolder.create(link, JOB, overwrite=True)
    assert link.is_symlink()
    assert [item.name for item in real.iterdir()] == [EXPERIMENT]


def test_a_link_to_itself_is_one_sentence(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(BadOption, match=r"cannot be (read|written)"):
        OutputFolder.create(tmp_path / "loop", JOB)


def test_a_folder_that_cannot_be_looked_at_is_one_sentence(tmp_path):
    with pytest.raises(BadOption, match=r"cannot be (read|written): File name too long"):
        OutputFolder.create(tmp_path / ("a" * 300), JOB)


def test_a_folder_in_place_of_a_file_is_one_sentence(tmp_path):
    OutputFolder.create(tmp_path / "job", JOB)
    (tmp_path / "job" / ROUNDS).mkdir()
    with pytest.raises(BadOption, match="cannot be written: Is a directory"):
        OutputFolder.create(tmp_path / "job", JOB, overwrite=True)


def test_what_is_no_job_is_never_overwritten(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(BadOption, match="holds something else"):
        OutputFolder.create(tmp_path, JOB, overwrite=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_file_is_no_folder(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(BadOption, match="is a file; name a folder"):
        OutputFolder.create(path, JOB)


def test_an_empty_folder_will_do(tmp_path):
    OutputFolder.create(tmp_path, JOB)
    assert (tmp_path / "experiment.json").exists()
