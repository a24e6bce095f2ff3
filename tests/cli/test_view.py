import json

import pytest

from fedcore.cli import view
from fedcore.cli.table2 import Piece
from fedcore.cli.view import View
from fedcore.report.output import ROUNDS

ONE = Piece("paper", "mnist", 30.0, "fedcore", 0)
OTHER = Piece("paper", "mnist", 10.0, "fedavg", 0)


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(view.time, "monotonic", lambda: now[0])
    return now


def write(out, piece, count, torn=""):
    path = out / piece.path / ROUNDS
    path.parent.mkdir(parents=True, exist_ok=True)
    row = {"round_time": 0.5, "test_accuracy": 0.25}
    path.write_text("".join(json.dumps(row) + "\n" for _ in range(count)) + torn)


def test_lines_tell_rounds_accuracy_virtual_time_and_time_left(tmp_path, clock, capsys):
    shown = View(tmp_path, {ONE: 4, OTHER: 2})
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
    write(tmp_path, ONE, 4)
    write(tmp_path, OTHER, 2)
    shown.look()
    last = capsys.readouterr().err.splitlines()
    assert last == [
        f"[1/2] {ONE.path}: round 4 of 4, accuracy 25.0 %, 2.0 deadlines",
        f"[2/2] {OTHER.path}: round 2 of 2, accuracy 25.0 %, 1.0 deadlines",
    ]
    shown.look()
    assert capsys.readouterr().err == ""
    shown.close()


def test_on_a_terminal_lines_are_written_over(tmp_path, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    shown, texts = View(tmp_path, {ONE: 4, OTHER: 2}), []
    monkeypatch.setattr(shown._live, "update", texts.append)
    try:
        write(tmp_path, ONE, 2)
        write(tmp_path, OTHER, 1)
        shown.look()
        assert f"{ONE.path}: round 2 of 4, accuracy 25.0 %" in texts[-1]
        assert f"{OTHER.path}: round 1 of 2, accuracy 25.0 %" in texts[-1]
        write(tmp_path, OTHER, 2)
        write(tmp_path, ONE, 3)
        shown.look()
        assert str(OTHER.path) not in texts[-1]
        assert f"{ONE.path}: round 3 of 4" in texts[-1]
    finally:
        shown.close()
