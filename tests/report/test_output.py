import json
import time
from dataclasses import replace

import pytest
import torch

from fedcore.errors import BadOption, BadRecord
from fedcore.records import RoundRecord, RunKey, Snapshot
from fedcore.report import output
from fedcore.report.output import CHECKPOINT, EXPERIMENT, ROUNDS, SUMMARY, OutputFolder

RUN = RunKey("b", "fedcore", 30.0, 0)
OTHER = RunKey("b", "fedavg", 30.0, 0)
RUNS = [OTHER, RUN]
JOB = {"rounds": 3, "seed": (0,)}


def record(number):
    return RoundRecord(number, 0.9, 1.0, (), 0, 1.0, 0.5, None, 0.5, 0.0)


def state(value):
    return lambda: Snapshot({"param/layer.weight": torch.full((2, 3), float(value))}, {"v": value})


def create(path, job=JOB, **options):
    folder = OutputFolder.create(path, job, **options)
    folder.begin()
    return folder


def resume(path, job=JOB):
    folder = OutputFolder.resume(path, job, RUNS)
    folder.begin()
    return folder


def finished(path, run=OTHER):
    """A folder in which one run is done."""
    folder = create(path)
    for number in (1, 2, 3):
        folder.add(record(number), run, state(number))
    return folder


def written(path):
    """Strategy and round of every line."""
    text = (path / ROUNDS).read_text() if (path / ROUNDS).exists() else ""
    rows = map(json.loads, text.splitlines())
    return [(row["strategy"], row["round"]) for row in rows]


@pytest.fixture
def always_checkpoint(monkeypatch):
    monkeypatch.setattr(output, "CHECKPOINT_EVERY", -1.0)


def test_rounds_are_on_disk_as_they_come(tmp_path):
    create(tmp_path / "job").add(record(1), OTHER, state(1))
    assert written(tmp_path / "job") == [("fedavg", 1)]
    assert not (tmp_path / "job" / SUMMARY).exists()


def test_nothing_is_written_before_a_job_begins(tmp_path):
    finished(tmp_path / "old")
    before = {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}
    OutputFolder.create(tmp_path / "new", JOB)
    OutputFolder.create(tmp_path / "old", JOB, overwrite=True)
    OutputFolder.resume(tmp_path / "old", JOB, RUNS)
    assert not (tmp_path / "new").exists()
    assert {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()} == before


def test_a_finished_job_has_a_summary_and_no_checkpoint(tmp_path, always_checkpoint):
    folder = create(tmp_path / "job")
    folder.add(record(1), RUN, state(1))
    assert (tmp_path / "job" / CHECKPOINT).exists()
    folder.finish()
    assert not (tmp_path / "job" / CHECKPOINT).exists()
    content = json.loads((tmp_path / "job" / SUMMARY).read_text())
    assert content["schema"] == 1
    assert content["results"][0]["strategy"] == "fedcore"


def test_who_went_on_and_who_never_stopped_have_one_summary(tmp_path):
    """A loss that is no number is null on disk, and so it is for a process that wrote it."""
    folder = create(tmp_path / "job")
    for run in RUNS:
        for number in (1, 2, 3):
            folder.add(replace(record(number), train_loss=float("nan")), run, state(number))
    written = resume(tmp_path / "job").finish()["results"]
    assert folder.finish()["results"] == written
    assert written[0]["final_train_loss"] is None


def test_a_finished_job_keeps_who_trained_it_until_there_is_something_to_train(
    tmp_path, monkeypatch
):
    """As when it is resumed for --csv with a later version, on another machine."""

    def environment():
        return json.loads((tmp_path / SUMMARY).read_text())["environment"]["torch"]

    finished(tmp_path, RUN).finish()
    trained = environment()
    monkeypatch.setattr("fedcore.report.summary.environment", lambda: {"torch": "later"})
    OutputFolder.resume(tmp_path, JOB, [RUN]).finish()
    assert environment() == trained
    lines = (tmp_path / ROUNDS).read_text().splitlines(keepends=True)
    (tmp_path / ROUNDS).write_text("".join(lines[:2]))
    folder = OutputFolder.resume(tmp_path, JOB, [RUN])
    folder.begin()
    folder.add(record(3), RUN)
    assert not (tmp_path / SUMMARY).exists()  # an interrupted job again
    folder.finish()
    assert environment() == "later"
    (tmp_path / SUMMARY).write_text("{")
    OutputFolder.resume(tmp_path, JOB, [RUN]).finish()
    assert environment() == "later"


def test_a_checkpoint_that_was_cut_off_goes_with_its_job(tmp_path, always_checkpoint):
    folder = finished(tmp_path)
    partial = output.partial_of(tmp_path / CHECKPOINT)
    partial.write_bytes(b"cut")
    folder.finish()
    assert not partial.exists()


def test_a_state_is_made_only_when_a_checkpoint_is_due(tmp_path):
    def never():
        raise AssertionError

    create(tmp_path / "job").add(record(1), OTHER, never)


def test_an_interrupted_job_goes_on_after_its_last_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "job"
    folder = finished(path)
    monkeypatch.setattr(output, "CHECKPOINT_EVERY", -1.0)
    folder.add(record(1), RUN, state(1))
    monkeypatch.setattr(output, "CHECKPOINT_EVERY", 1e9)
    folder.add(record(2), RUN, state(2))  # no checkpoint behind this one
    before = (path / ROUNDS).read_bytes()
    again = resume(path)
    done, snapshot = again.position(RUN, rounds=3)
    assert (done, snapshot.meta) == (1, {"v": 1})
    assert torch.equal(snapshot.tensors["param/layer.weight"], torch.ones(2, 3))
    assert written(path) == [("fedavg", 1), ("fedavg", 2), ("fedavg", 3), ("fedcore", 1)]
    again.add(record(2), RUN, state(2))
    assert (path / ROUNDS).read_bytes() == before


def test_a_run_that_is_done_or_not_begun_needs_no_checkpoint(tmp_path):
    finished(tmp_path / "job")
    again = resume(tmp_path / "job")
    assert again.position(OTHER, rounds=3) == (3, None)
    assert again.position(RUN, rounds=3) == (0, None)


def test_without_a_checkpoint_a_run_begins_anew(tmp_path):
    create(tmp_path / "job").add(record(1), OTHER, state(1))
    again = resume(tmp_path / "job")
    assert again.position(OTHER, rounds=3) == (0, None)
    assert written(tmp_path / "job") == []


@pytest.mark.parametrize("kept", range(6))
def test_after_lines_are_deleted_a_later_checkpoint_is_not_taken(tmp_path, always_checkpoint, kept):
    """What a refusal of a line advises: those that are gone are trained again."""
    path = tmp_path / "job"
    folder = finished(path)
    for number in (1, 2):
        folder.add(record(number), RUN, state(number))
    lines = (path / ROUNDS).read_text().splitlines(keepends=True)
    (path / ROUNDS).write_text("".join(lines[:kept]))
    again = resume(path)
    done = [again.position(run, rounds=3) for run in RUNS]
    assert [number for number, _ in done] == [3 if kept >= 3 else 0, 2 if kept == 5 else 0]
    assert len(written(path)) == sum(number for number, _ in done)


def test_a_damaged_line_is_refused_and_left_as_it_is(tmp_path):
    finished(tmp_path / "job")
    path = tmp_path / "job" / ROUNDS
    path.write_text(path.read_text().replace('"round": 2', '"round": 99'))
    before = path.read_bytes()
    with pytest.raises(BadRecord, match="line 2 of"):
        resume(tmp_path / "job")
    assert path.read_bytes() == before


def test_an_event_that_is_no_text_is_dropped(tmp_path):
    finished(tmp_path / "job")
    (tmp_path / "job" / output.EVENTS).write_bytes(b'{"strategy": "\xff\n')
    resume(tmp_path / "job")
    assert (tmp_path / "job" / output.EVENTS).read_text() == ""


def test_a_damaged_checkpoint_is_refused_and_the_remedy_works(tmp_path, always_checkpoint):
    create(tmp_path / "job").add(record(1), OTHER, state(1))
    (tmp_path / "job" / CHECKPOINT).write_bytes(b"")
    with pytest.raises(BadRecord, match=r"is damaged .*; delete it and resume again"):
        resume(tmp_path / "job").position(OTHER, rounds=3)
    (tmp_path / "job" / CHECKPOINT).unlink()
    assert resume(tmp_path / "job").position(OTHER, rounds=3) == (0, None)


def test_another_jobs_folder_is_not_resumed(tmp_path):
    create(tmp_path / "job", JOB)
    with pytest.raises(BadOption, match="rounds is 4 but the job in"):
        resume(tmp_path / "job", {**JOB, "rounds": 4})


@pytest.mark.parametrize(("name", "here"), [("device", "cpu"), ("threads", 2), ("data_dir", "b")])
def test_another_machine_may_go_on(tmp_path, name, here):
    create(tmp_path / "job", {**JOB, name: "there"}).add(record(1), OTHER, state(1))
    assert resume(tmp_path / "job", {**JOB, name: here}).runs


def test_an_option_that_a_job_does_not_know_yet_had_its_default(tmp_path):
    create(tmp_path / "job", JOB).add(record(1), OTHER, state(1))
    assert resume(tmp_path / "job", {**JOB, "catch_up": 1.0}).runs
    with pytest.raises(BadOption, match=r"catch_up is 2.0 but the job in .* has 1.0"):
        resume(tmp_path / "job", {**JOB, "catch_up": 2.0})


def test_a_folder_without_a_job_is_not_resumed(tmp_path):
    with pytest.raises(BadOption, match="holds no interrupted job"):
        resume(tmp_path, JOB)


def test_a_damaged_job_is_not_resumed(tmp_path):
    create(tmp_path / "job", JOB)
    for text in ("[1]", "{", "3"):
        (tmp_path / "job" / EXPERIMENT).write_text(text)
        with pytest.raises(BadOption, match="holds no interrupted job"):
            resume(tmp_path / "job", JOB)


def test_an_earlier_job_is_replaced_only_on_request(tmp_path):
    path = tmp_path / "job"
    create(path, JOB).add(record(1), OTHER, state(1))
    with pytest.raises(BadOption, match="--resume to go on with it or --overwrite"):
        create(path, JOB)
    create(path, JOB, overwrite=True)
    assert not (path / ROUNDS).exists()


def test_overwriting_leaves_the_users_own_files_in_the_folder(tmp_path, always_checkpoint):
    path = tmp_path / "job"
    create(path, JOB).add(record(1), OTHER, state(1))
    (path / "plots").mkdir()
    for name in ("notes.txt", "plots/mine.png", "loss.png", "client_times.png", SUMMARY):
        (path / name).write_text("written")
    create(path, JOB, overwrite=True)
    left = {str(item.relative_to(path)) for item in path.rglob("*")}
    assert left == {"experiment.json", "notes.txt", "plots", "plots/mine.png"}


def test_overwriting_takes_what_was_made_of_the_rounds_and_who_trained_them(tmp_path):
    """A table of the job before, beside the rounds of this one, would be taken for theirs."""
    finished(tmp_path).finish()
    for name in ("rounds.csv", "provenance.jsonl"):
        (tmp_path / name).write_text("of the job before")
    resume(tmp_path)
    assert (tmp_path / "rounds.csv").exists()
    create(tmp_path, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == [EXPERIMENT]


def test_a_link_to_a_folder_is_the_folder(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    create(link, JOB).add(record(1), OTHER, state(1))  # the folder is not there yet
    assert (real / ROUNDS).exists()
    create(link, JOB, overwrite=True)
    assert link.is_symlink()
    assert [item.name for item in real.iterdir()] == [EXPERIMENT]


def test_a_link_to_itself_is_one_sentence(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(BadOption, match=r"cannot be (read|written)"):
        create(tmp_path / "loop", JOB)


def test_a_folder_that_cannot_be_looked_at_is_one_sentence(tmp_path):
    with pytest.raises(BadOption, match=r"cannot be (read|written): File name too long"):
        create(tmp_path / ("a" * 300), JOB)


def test_a_folder_in_place_of_a_file_is_one_sentence(tmp_path):
    create(tmp_path / "job", JOB)
    (tmp_path / "job" / ROUNDS).mkdir()
    with pytest.raises(BadOption, match="cannot be written: Is a directory"):
        create(tmp_path / "job", JOB, overwrite=True)


def test_what_is_no_job_is_never_overwritten(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(BadOption, match="holds something else"):
        create(tmp_path, JOB, overwrite=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_file_is_no_folder(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(BadOption, match="is a file; name a folder"):
        create(path, JOB)


def test_an_empty_folder_will_do(tmp_path):
    create(tmp_path, JOB)
    assert (tmp_path / "experiment.json").exists()


def test_writing_a_file_of_many_tensors_takes_as_long_as_they_are_many(tmp_path):
    def seconds(count):
        params, found = {str(n): torch.zeros(20_000) for n in range(count)}, []
        for _ in range(3):
            began = time.process_time()
            output.save_model(tmp_path / "model.safetensors", params, {})
            found.append(time.process_time() - began)
        return min(found)

    assert seconds(1200) < 24 * seconds(150)  # of content joined piece by piece: 64
