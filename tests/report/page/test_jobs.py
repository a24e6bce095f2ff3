import json
import shutil

import pytest

from fedcore.errors import BadOption, BadRecord
from fedcore.report.page.jobs import levels_of, read_jobs
from fedcore.report.page.tables import tables


@pytest.fixture
def copy(a_job, tmp_path):
    """A copy of the job, with options changed."""

    def make(name, **options):
        shutil.copytree(a_job, tmp_path / name)
        for file in ("experiment.json", "summary.json"):
            content = json.loads((tmp_path / name / file).read_text())
            content.get("experiment", content).update(options)
            (tmp_path / name / file).write_text(json.dumps(content))
        return tmp_path / name

    return make


def test_runs_come_by_level_with_their_folder_and_rounds(a_job):
    levels = levels_of(read_jobs([a_job]))
    assert [level[:3] for level in levels] == [
        ("preset paper", "synthetic-1-1", 10.0),
        ("preset paper", "synthetic-1-1", 30.0),
    ]
    for level in levels:
        names = ("fedavg", "fedavg-ds", "fedprox", "fedcore")
        found = [(run["strategy"], run["seed"]) for run in level.runs]
        assert found == [(name, seed) for name in names for seed in (0, 1)]
        assert all(run["job"].path == a_job for run in level.runs)
        assert all(len(run["records"]) == run["records"][-1].number == 12 for run in level.runs)
    assert levels[0].title == "Synthetic (1, 1), 10 % stragglers"
    assert levels[0].name == "synthetic-1-1-10-preset-paper"


def test_results_are_those_of_the_summary(a_job):
    written = json.loads((a_job / "summary.json").read_text())["results"]
    found = [run for level in levels_of(read_jobs([a_job])) for run in level.runs]
    for one, other in zip(found, written, strict=True):
        assert {name: one[name] for name in other} == other


def test_what_makes_a_run_another_size_is_noted(a_job):
    (level, _) = levels_of(read_jobs([a_job]))
    notes = level.runs[0]["notes"]
    assert "Rounds 12, where the preset has 100." in notes
    assert any(note.startswith("Data {") for note in notes)


def test_other_options_are_another_variant_and_machines_are_none(copy):
    folders = [copy("a"), copy("b", catch_up=10.0), copy("c", device="cuda", threads=4)]
    levels = levels_of(read_jobs(folders))
    # Epochs are not what the preset has for the benchmark either
    variants = list(dict.fromkeys(level.variant for level in levels))
    assert variants == [levels[0].variant, f"{levels[0].variant}, catch up 10.0"]
    assert len(levels) == 4
    assert [len(level.runs) for level in levels] == [8] * 4


def test_runs_of_two_sizes_do_not_take_each_others_place(copy):
    levels = levels_of(read_jobs([copy("a"), copy("b", rounds=40)]))
    variants = list(dict.fromkeys(level.variant for level in levels))
    assert len(variants) == 2
    assert variants[1].startswith(f"{variants[0]}, ")
    assert "rounds 40" in variants[1]
    assert [len(level.runs) for level in levels] == [8] * 4


def test_runs_of_the_size_of_the_preset_keep_theirs_whichever_folder_comes_first(copy):
    levels = levels_of(read_jobs([copy("a", data={}), copy("b", rounds=100, data={})]))
    found = [(level.variant, run["job"].path.name) for level in levels for run in level.runs]
    assert set(found) == {("preset paper", "b"), ("preset paper, rounds 12", "a")}
    assert len(found) == 4 * 8


def test_runs_of_the_same_options_that_came_out_otherwise_are_all_shown(copy):
    """As after a change of a strategy's file; a part of a job takes nobody's place either."""
    first, same, part = (copy(name) for name in ("first", "same", "part"))
    (part / "summary.json").unlink()
    lines = (part / "rounds.jsonl").read_text().splitlines(keepends=True)
    (part / "rounds.jsonl").write_text("".join(lines[:5]))
    levels = levels_of(read_jobs([first, same, part]))
    plain = levels[0].variant
    found = [(level.variant, level.stragglers, len(level.runs)) for level in levels]
    assert found == [(plain, 10, 8), (plain, 30, 8), (f"{plain}, in {part}", 10, 1)]
    assert levels[2].runs[0]["rounds"] == 5
    assert {len(run["records"]) for run in levels[0].runs} == {12}


def test_files_of_many_options_have_names_that_a_disk_takes_and_no_two_the_same(copy):
    many = {"data": {f"option-{n}": n for n in range(60)}, "catch_up": 10.0}
    levels = levels_of(read_jobs([copy("a", **many), copy("b", **many, rounds=40)]))
    names = [level.name for level in levels]
    assert len(set(names)) == len(names) == 4
    assert all(len(name.encode()) < 250 for name in names)


def test_a_sign_tells_two_files_apart(copy):
    folders = [copy(f"at {n}", speed_size_correlation=n) for n in (0.5, -0.5)]
    levels = levels_of(read_jobs(folders))
    assert len({level.name for level in levels}) == len(levels) == 4
    assert sum(name.startswith("results-") for name in tables(levels, [], folders[0])) == 4


def test_jobs_below_a_folder_are_found(copy, tmp_path):
    copy("deep/er/one"), copy("two")
    assert [job.path for job in read_jobs([tmp_path])] == [
        tmp_path / "deep/er/one",
        tmp_path / "two",
    ]


def test_pieces_of_one_comparison_come_together_and_share_targets(a_job, tmp_path):
    """Each strategy in a folder of its own: targets are then those of the best of all."""
    lines = (a_job / "rounds.jsonl").read_text().splitlines()
    for strategy in ("fedavg", "fedcore"):
        folder = tmp_path / strategy
        folder.mkdir()
        experiment = json.loads((a_job / "experiment.json").read_text())
        (folder / "experiment.json").write_text(json.dumps(experiment))
        own = [line for line in lines if json.loads(line)["strategy"] == strategy]
        (folder / "rounds.jsonl").write_text("\n".join(own) + "\n")
    for level in levels_of(read_jobs([tmp_path])):
        assert [run["strategy"] for run in level.runs] == ["fedavg"] * 2 + ["fedcore"] * 2
        assert len({run["time_to_accuracy"][0]["target"] for run in level.runs}) == 1


def test_without_a_summary_results_are_made_of_rounds_and_versions_are_unknown(copy):
    folder = copy("one")
    (folder / "summary.json").unlink()
    text = (folder / "rounds.jsonl").read_text()
    torn = text.splitlines()[0]
    torn = torn[: torn.rindex("}", 0, -1) + 1]  # behind a client of the round
    (folder / "rounds.jsonl").write_text(text + torn)
    (job,) = read_jobs([folder])
    assert job.content["environment"] == {}
    assert len(job.content["results"]) == 16


def test_a_whole_last_line_counts_whatever_is_in_it(copy):
    folder = copy("one")
    *before, last = (folder / "rounds.jsonl").read_text().splitlines()
    last = json.dumps({**json.loads(last), "reason": "by {mine"})
    (folder / "rounds.jsonl").write_text("\n".join([*before, last, ""]))
    (job,) = read_jobs([folder])
    assert [records[-1].reason for records in job.runs.values()][-1] == "by {mine"


def test_without_rounds_there_are_results_alone(copy):
    folder = copy("one")
    (folder / "rounds.jsonl").unlink()
    levels = levels_of(read_jobs([folder]))
    assert [len(level.runs) for level in levels] == [8, 8]
    assert not any(run["records"] for level in levels for run in level.runs)


def test_a_folder_without_a_job_and_a_damaged_one_are_refused_in_a_sentence(copy, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadOption, match=r"empty' holds no job; name a folder"):
        read_jobs([tmp_path / "empty"])
    folder = copy("one")
    text = (folder / "rounds.jsonl").read_text()
    (folder / "rounds.jsonl").write_text("{}\n" + text)
    with pytest.raises(BadRecord, match=r"one' cannot be read: .*; resume it, or move it away"):
        read_jobs([folder])
