import json
import shutil
from pathlib import Path

import pytest

from fedcore.cli.folders import differences, evaluate, merge
from fedcore.cli.pieces import rounds_of, run_piece
from fedcore.cli.table2 import Piece
from fedcore.errors import BadOption, BadRecord
from fedcore.report.output import EXPERIMENT, ROUNDS, SUMMARY
from fedcore.report.records import to_lines

OPTIONS = {"rounds": 3, "epochs": 1, "clients_per_round": 3, "device": "cpu", "threads": 1}
CORE = Piece("paper", "synthetic-1-1", 30.0, "fedcore", 0)
PROX = Piece("paper", "synthetic-1-1", 30.0, "fedprox", 0)


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def first_rounds(count):
    def train(experiment, start, known):
        for record, snapshot, who, data in rounds_of(experiment, start, known):
            if record.number > count:
                raise KeyboardInterrupt
            yield record, snapshot, {**who, "processor": "another"}, data

    return train


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """One has FedProx and all of FedCore, the other two rounds of FedCore."""
    one, other = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    run_piece(PROX, one, OPTIONS)
    run_piece(CORE, one, OPTIONS)
    with pytest.raises(KeyboardInterrupt):
        run_piece(CORE, other, OPTIONS, first_rounds(2))
    return one, other


def test_of_a_piece_that_two_have_the_longer_is_taken_as_it_is(machines, tmp_path):
    for number, order in enumerate((machines, machines[::-1])):
        out = tmp_path / str(number)
        assert merge(order, out) == 2
        assert files(out) == files(machines[0])


def test_what_is_there_already_is_kept_or_completed(machines, tmp_path):
    one, other = machines
    out = tmp_path / "out"
    assert merge([other], out) == 1
    lines = (out / CORE.path / "provenance.jsonl").read_text().splitlines()
    assert [json.loads(line)["processor"] for line in lines] == ["another"]
    assert merge([one], out) == 2
    assert files(out) == files(one)
    merge([other], out)
    assert files(out) == files(one)
    run_piece(CORE, out, OPTIONS, None)  # finished: nobody trains


def test_a_merge_that_was_cut_off_is_whole_when_it_is_done_again(machines, tmp_path, monkeypatch):
    def cut_off(*given, **more):
        place = copy(*given, **more)
        next(Path(place).glob("model-*")).unlink()
        raise KeyboardInterrupt

    copy, out = shutil.copytree, tmp_path / "out"
    monkeypatch.setattr(shutil, "copytree", cut_off)
    with pytest.raises(KeyboardInterrupt):
        merge(machines, out)
    monkeypatch.undo()
    merge(machines, out)
    assert files(out) == files(machines[0])


def test_what_is_merged_does_not_go_into_itself(machines):
    """A second merge would have copied what the first had put there, and so on."""
    before = files(machines[0])
    with pytest.raises(BadOption, match="out must not lie in a folder that is merged"):
        merge(machines, machines[0] / "all")
    assert files(machines[0]) == before


def test_a_single_job_goes_by_its_folders_name(machines, tmp_path):
    assert merge([machines[0] / CORE.path], tmp_path / "out") == 1
    assert files(tmp_path / "out" / "30") == files(machines[0] / CORE.path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("option", r"option epochs of '.*' and '.*' differ; leave out one of them"),
        ("line", r"rounds of '.*' and '.*' differ; leave out one of them"),
    ],
)
def test_a_contradiction_is_one_sentence_and_nothing_is_copied(
    machines, tmp_path, change, sentence
):
    bad = tmp_path / "bad"
    shutil.copytree(machines[1], bad)
    place = bad / CORE.path
    if change == "line":
        lines = (place / ROUNDS).read_text().splitlines()
        rows = [json.loads(lines[0]), json.loads(lines[1]) | {"test_accuracy": 0.123}]
        (place / ROUNDS).write_text(to_lines({**row, "check": None} for row in rows)[0])
    else:
        content = json.loads((place / "experiment.json").read_text()) | {"epochs": 7}
        (place / "experiment.json").write_text(json.dumps(content))
    with pytest.raises(BadOption, match=sentence):
        merge([bad, machines[0]], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "change",
    [lambda x: x.replace('"train_loss": ', '"train_loss": 1'), lambda x: x[:50], lambda x: "3"],
)
def test_rounds_that_were_changed_are_not_merged_on_the_word_of_their_check(
    machines, tmp_path, change
):
    """Neither beside a good copy of the piece, which may be the shorter, nor alone."""
    bad = tmp_path / "bad"
    shutil.copytree(machines[0], bad)
    path = bad / CORE.path / ROUNDS
    first, second, third, _ = path.read_text().split("\n")
    path.write_text("\n".join([first, change(second), third, ""]))
    for sources in ([bad, machines[1]], [*machines, bad]):
        with pytest.raises(BadRecord, match="is not as it was written; resume that job, or leave"):
            merge(sources, tmp_path / "out")
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["", "{", "3"])
@pytest.mark.parametrize("name", [EXPERIMENT, SUMMARY])
def test_a_damaged_file_of_a_job_is_refused_in_a_sentence(machines, tmp_path, name, text):
    bad = tmp_path / "bad"
    shutil.copytree(machines[0], bad)
    (bad / CORE.path / name).write_text(text)
    sentence = rf"{name}' cannot be read \(.*\); leave that job out"
    with pytest.raises(BadRecord, match=sentence):
        list(differences(machines[0], bad))
    if name == EXPERIMENT:
        with pytest.raises(BadRecord, match=sentence):
            merge([bad], tmp_path / "out")
        with pytest.raises(BadRecord, match=sentence):
            list(evaluate(bad, None))


def test_rounds_of_versions_that_wrote_no_check_are_merged_and_the_longer_taken(machines, tmp_path):
    for number, machine in enumerate(machines):
        shutil.copytree(machine, tmp_path / str(number))
        path = tmp_path / str(number) / CORE.path / ROUNDS
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        text = "".join(
            json.dumps({**row, "check": 0}).replace(', "check": 0', "") + "\n" for row in rows
        )
        path.write_text(text)
    for order in ("01", "10"):
        assert merge([tmp_path / name for name in order], tmp_path / f"out{order}") == 2
        assert files(tmp_path / f"out{order}") == files(tmp_path / "0")


def test_jobs_without_a_summary_differ_by_their_rounds(machines, tmp_path):
    """As two that were interrupted do."""
    one, other = tmp_path / "one", tmp_path / "other"
    for machine, place in zip(machines, (one, other), strict=True):
        shutil.copytree(machine / CORE.path, place)
        (place / SUMMARY).unlink(missing_ok=True)
    (found,) = differences(one, other)
    assert found.startswith(".: rounds and their check: 3 ")
    assert " and 2 " in found
    (other / ROUNDS).unlink()
    (found,) = differences(one, other)
    assert found.endswith(" and 0 none")


def test_a_folder_without_results_is_refused(machines, tmp_path):
    for look in (
        lambda: merge([tmp_path], tmp_path / "out"),
        lambda: list(differences(tmp_path, tmp_path)),
    ):
        with pytest.raises(BadOption, match="holds no job; name a folder of a job"):
            look()


def test_differences_are_of_options_versions_and_results_and_not_of_time(machines, tmp_path):
    one, other = machines[0], tmp_path / "other"
    shutil.copytree(one, other)
    assert list(differences(one, other)) == []
    place = other / CORE.path
    content = json.loads((place / SUMMARY).read_text())
    content["results"][0] |= {"wall_seconds": 99.0, "final_test_accuracy": 0.5}
    content["environment"]["torch"] = "3.0"
    (place / SUMMARY).write_text(json.dumps(content))
    options = json.loads((place / "experiment.json").read_text()) | {"epochs": 7, "threads": 5}
    (place / "experiment.json").write_text(json.dumps(options))
    shutil.rmtree(other / PROX.path)
    found = list(differences(one, other))
    assert len(found) == 4
    assert found[0] == f"{CORE.path}: option epochs: 1 and 7"
    assert found[1].startswith(f"{CORE.path}: environment torch: ")
    assert found[1].endswith(" and 3.0")
    assert found[2].startswith(f"{CORE.path}: final_test_accuracy of fedcore at 30 % with seed 0: ")
    assert found[3] == f"{PROX.path}: only in {one}"


def test_the_command_tells_how_many_jobs_there_are(machines, tmp_path, monkeypatch, capsys):
    pytest.importorskip("typer")
    from fedcore.cli.main import main

    out = tmp_path / "out"
    monkeypatch.setattr("sys.argv", ["fedcore", "merge", *map(str, machines), "--out", str(out)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"2 jobs are in {out}\n"
    assert files(out) == files(machines[0])


def test_the_command_shows_differences_and_its_exit_code_says_so(
    machines, tmp_path, monkeypatch, capsys
):
    pytest.importorskip("typer")
    from fedcore.cli.main import main

    for other, code, words in (
        (machines[0], 0, "no difference but in real times"),
        (machines[1], 1, f"{PROX.path}: only in {machines[0]}"),
    ):
        monkeypatch.setattr("sys.argv", ["fedcore", "diff", str(machines[0]), str(other)])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code == code
        assert words in capsys.readouterr().out
