import json
import shutil

import pytest

from fedcore.cli.folders import merge
from fedcore.cli.pieces import rounds_of, run_piece
from fedcore.cli.table2 import Piece
from fedcore.errors import BadOption
from fedcore.report.output import ROUNDS
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


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(BadOption, match="holds no results; name a folder that a job wrote"):
        merge([tmp_path], tmp_path / "out")


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
