import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")

import re

from typer.testing import CliRunner

from fedcore.cli.main import app
from fedcore.errors import BadData, BadOption

SMALL = ("--data", "clients=5", "--data", "dimension=3", "--data", "classes=3", "--epochs", "3")
SMALL += ("--rounds", "4", "--clients-per-round", "2", "--paths", "2")


def ask(*arguments, code=0):
    result = CliRunner().invoke(app, ["bound", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def test_constants_a_row_for_every_synchronisation_and_a_plot(tmp_path):
    output = ask(*SMALL, "--stragglers", 40, "--out", tmp_path / "new" / "one")
    rows = re.findall(r"^ +(\d+) +(\S+) +(\S+) +(\S+) +(\S+)$", output, re.MULTILINE)
    assert [int(row[0]) for row in rows] == [0, 1, 2, 3, 4]
    for row in rows:
        measured, recursion, corrected, paper = map(float, row[1:])
        assert measured <= recursion <= corrected <= paper
    for found in (
        "l2 0.01; 2 of 5 clients",
        "L  ",
        "μ  0.01 ",
        "Γ  ",
        "D  ",
        "ε  ",
        "A_1 ",
        "slope",
    ):
        assert found in output
    assert "--learning-rate" in output
    assert "--schedule inverse-time --schedule-decay" in output
    assert (tmp_path / "new" / "one" / "bound.png").stat().st_size > 5000
    assert "slope" in (tmp_path / "new" / "one" / "bound.txt").read_text("utf-8")


def test_the_regulariser_is_the_convexity():
    assert "μ  0.5 " in ask(*SMALL, "--l2", "0.5")


def test_a_deadline_in_place_of_stragglers():
    assert "slower than τ = 1e+09" in ask(*SMALL, "--deadline", "1e9")


def test_refusals(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(BadOption, match=r"out '.*file' cannot be written"):
        ask(*SMALL, "--out", file)
    with pytest.raises(BadOption, match="l2 must be a number, got 'much'"):
        ask(*SMALL, "--l2", "much")
    with pytest.raises(BadOption, match="paths must be above 0, got 0"):
        ask(*SMALL, "--paths", "0")
    with pytest.raises(BadOption, match="must be above 0, got -1"):
        ask(*SMALL, "--l2", "-1")
    with pytest.raises(BadOption, match="rounds must be at least 2, got 1"):
        ask(*SMALL, "--rounds", "1")
    with pytest.raises(
        BadData, match=r"has [0-9],[0-9]{3} parameters, and w_\* is solved for up to 2,000"
    ):
        ask("--data", "dimension=600", "--data", "clients=3")
