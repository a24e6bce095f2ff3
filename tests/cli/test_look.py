import json

import pytest

pytest.importorskip("typer")

import typer

from fedcore.cli.main import diff


def write(folder, epochs):
    folder.mkdir()
    (folder / "experiment.json").write_text(json.dumps({"epochs": epochs, "threads": epochs}))
    return folder


def test_the_exit_code_says_whether_there_is_a_difference(tmp_path, capsys):
    one, same, other = (write(tmp_path / name, n) for name, n in (("a", 1), ("b", 1), ("c", 2)))
    for folder, code, words in (
        (same, 0, "no difference but in real times\n"),
        (other, 1, ".: option epochs: 1 and 2\n"),
    ):
        with pytest.raises(typer.Exit) as stopped:
            diff(one, folder)
        assert stopped.value.exit_code == code
        assert capsys.readouterr().out == words
