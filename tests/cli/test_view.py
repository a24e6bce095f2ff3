import json

import pytest

from fedcore.cli import reproduce
from fedcore.cli.reproduce import View
from fedcore.cli.table2 import Piece
from fedcore.config import Experiment
from fedcore.report.output import ROUNDS

ONE = Piece("paper", "mnist", 30.0, "fedcore", 0)
OTHER = Piece("paper", "mnist", 10.0, "fedavg", 0)


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(reproduce.time, "monotonic", lambda: now[0])
    return now


def pieces(**rounds):
    known = {"one": ONE, "other": OTHER}
    return {known[name]: Experiment(rounds=count) for name, count in rounds.items()}


def write(out, piece, count, torn="", over=False):
    path = out / piece.path / ROUNDS
    path.parent.mkdir(parents=True, exist_ok=True)
    row = {"round_time": 0.5, "test_accuracy": 0.25}
    rows = [row] * (count - over) + [row | {"ending": {}}] * over
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + torn)


def test_lines_tell_rounds_accuracy_virtual_time_and_time_left(tmp_path, clock, capsys):
    shown = View(tmp_path, pieces(one=4, other=2))
    shown.look()
    assert capsys.readouterr().err == ""
    write(tmp_path, ONE, 1)
    shown.look()
    first = f"[0/2] {ONE.path}: round 1 of 4, accuracy 25.0 %, 0.5 deadlines\n"
    assert capsys.readouterr().err == first
    clock[0] += 10.0
    write(tmp_path, ONE, 2, torn='{"round_')
    shown.look()
    assert capsys.readouterr().err == ""  # a line now and then
    clock[0] += 20.0
    write(tmp_path, ONE, 3)
    shown.look()
    assert capsys.readouterr().err.endswith(
        "round 3 of 4, accuracy 25.0 %, 1.5 deadlines, 15 s left\n"
    )
    write(tmp_path, ONE, 4, over=True)
    write(tmp_path, OTHER, 2, over=True)
    shown.look()
    last = capsys.readouterr().err.splitlines()
    assert last == [
        f"[1/2] {ONE.path}: round 4 of 4, accuracy 25.0 %, 2.0 deadlines",
        f"[2/2] {OTHER.path}: round 2 of 2, accuracy 25.0 %, 1.0 deadlines",
    ]
    shown.look()
    assert capsys.readouterr().err == ""


def test_on_a_terminal_a_line_is_written_over_until_its_piece_is_done(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    shown = View(tmp_path, pieces(one=2))
    write(tmp_path, ONE, 1)
    shown.look()
    write(tmp_path, ONE, 2, over=True)
    shown.look()
    first, last = capsys.readouterr().err.split("\x1b[K\r")
    assert first.endswith("round 1 of 2, accuracy 25.0 %, 0.5 deadlines")
    assert last == f"[1/1] {ONE.path}: round 2 of 2, accuracy 25.0 %, 1.0 deadlines\n"


def test_what_patience_or_a_time_budget_ends_is_done_then(tmp_path, clock, capsys):
    patient = Experiment(rounds=9, patience=2)
    shown = View(tmp_path, {ONE: patient, OTHER: Experiment(time_budget=2.0)})
    write(tmp_path, ONE, 3, over=True)
    write(tmp_path, OTHER, 1)
    shown.look()
    clock[0] += 30.0
    write(tmp_path, OTHER, 2)
    shown.look()
    write(tmp_path, OTHER, 4, over=True)
    shown.look()
    assert capsys.readouterr().err.splitlines() == [
        f"[1/2] {ONE.path}: round 3 of 9, accuracy 25.0 %, 1.5 deadlines",
        f"[1/2] {OTHER.path}: round 1, accuracy 25.0 %, 0.5 deadlines",
        f"[1/2] {OTHER.path}: round 2, accuracy 25.0 %, 1.0 deadlines, 60 s left",
        f"[2/2] {OTHER.path}: round 4, accuracy 25.0 %, 2.0 deadlines",
    ]
