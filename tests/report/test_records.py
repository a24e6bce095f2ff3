import json

import pytest

from fedcore.errors import BadRecord
from fedcore.records import ClientRecord, RoundRecord, RunKey
from fedcore.report.records import group, key_of, read_rows, to_line, to_row
from fedcore.types import Path

KEY = RunKey("synthetic-1-1", "fedcore", 30.0, 0)


def a_record(number=1, loss=0.5):
    clients = (
        ClientRecord(3, Path.CORESET, 2, 46, 92.0, 4),
        ClientRecord(5, Path.SAT_OUT, 1, 0, 0.0, None),
    )
    return RoundRecord(number, 92.0, 100.0, clients, 0, loss, 0.8, 0.6, 0.7, 0.01)


def test_times_are_in_units_of_the_deadline():
    row = to_row(KEY, a_record())
    assert row["round_time"] == 0.92
    assert row["clients"][0]["time"] == 0.92
    assert (row["participants"], row["left_out"]) == (1, 1)


def test_a_diverged_loss_is_null_because_json_has_no_nan():
    line = to_line(to_row(KEY, a_record(loss=float("nan"))))
    assert json.loads(line)["train_loss"] is None


def test_rows_survive_the_disk(tmp_path):
    rows = [to_row(KEY, a_record(number)) for number in (1, 2)]
    path = tmp_path / "rounds.jsonl"
    path.write_text("".join(map(to_line, rows)))
    assert read_rows(path) == rows
    assert key_of(rows[0]) == KEY
    assert list(group(rows)) == [KEY]


def test_a_torn_last_line_is_dropped(tmp_path):
    line = to_line(to_row(KEY, a_record()))
    path = tmp_path / "rounds.jsonl"
    path.write_text(line + line[: len(line) // 2])
    assert len(read_rows(path)) == 1


@pytest.mark.parametrize("bad", ["{}", "not json", "[1]", '{"benchmark": 1}'])
def test_a_broken_line_in_the_middle_is_named(tmp_path, bad):
    line = to_line(to_row(KEY, a_record()))
    path = tmp_path / "rounds.jsonl"
    path.write_text(line + bad + "\n" + line)
    with pytest.raises(BadRecord, match="line 2 of"):
        read_rows(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(BadRecord, match="cannot be read"):
        read_rows(tmp_path / "none.jsonl")


def test_real_time_stands_last():
    names = list(to_row(KEY, a_record()))
    assert all(name.startswith("wall_") for name in names[-5:])
    assert not any(name.startswith("wall_") for name in names[:-5])
