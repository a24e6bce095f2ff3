import dataclasses
import json
import zlib

import pytest

from fedcore.errors import BadRecord
from fedcore.records import ClientRecord, Ending, RoundRecord, RunKey, Waste
from fedcore.report.records import from_row, read_runs, to_lines, to_row
from fedcore.types import Way

KEY = RunKey("synthetic-1-1", "fedcore", 30.0, 0)
NEXT = RunKey("synthetic-1-1", "fedcore", 30.0, 1)
JOB = ([KEY, NEXT], 3)  # runs and their rounds


def a_record(number=1, loss=0.5):
    clients = (
        ClientRecord(3, Way.CORESET, 2, 46, 92.0, 4, 4, 0.1, fell_back=True),
        ClientRecord(5, Way.SAT_OUT, 1, 0, 0.0, None),
    )
    return RoundRecord(number, 92.0, 100.0, clients, 0, loss, 0.8, 0.6, 0.7, 0.01)


def rows_of(*keys):
    return [to_row(key, a_record(number)) for key in keys for number in (1, 2, 3)]


def in_deadlines(record):
    """The same round with the deadline as the unit of time, as a file has it."""
    clients = tuple(
        dataclasses.replace(c, seconds=c.seconds / record.deadline) for c in record.clients
    )
    return dataclasses.replace(record, seconds=record.time, deadline=1.0, clients=clients)


def test_times_are_in_units_of_the_deadline():
    row = to_row(KEY, a_record())
    assert row["round_time"] == 0.92
    assert row["clients"][0]["time"] == 0.92
    assert (row["participants"], row["left_out"]) == (1, 1)


def test_a_plain_draw_in_place_of_a_choice_is_counted_and_marked():
    row = to_row(KEY, a_record())
    assert row["fell_back"] == 1
    assert [client.get("fell_back") for client in row["clients"]] == [True, None]


def test_wasted_work_and_staleness_are_marked_and_lines_without_them_are_read():
    plain = a_record()
    first, second = plain.clients
    late = dataclasses.replace(first, wasted=Waste.CANCELLED, staleness=3)
    row = to_row(KEY, dataclasses.replace(plain, clients=(late, second)))
    assert (row["clients"][0]["wasted"], row["clients"][0]["staleness"]) == ("cancelled", 3)
    assert not {"wasted", "staleness"} & set(row["clients"][1])
    read = from_row(row)[1].clients
    assert [(c.wasted, c.staleness) for c in read] == [(Waste.CANCELLED, 3), (None, 0)]
    row["clients"][0]["wasted"] = "mislaid"
    with pytest.raises(ValueError, match="mislaid"):
        from_row(row)


def test_a_diverged_loss_is_null_because_json_has_no_nan():
    line, _ = to_lines([to_row(KEY, a_record(loss=float("nan")))])
    assert json.loads(line)["train_loss"] is None


def test_a_row_is_its_record_again():
    record = dataclasses.replace(a_record(), train_loss=None, train_accuracy=None)
    assert from_row(to_row(KEY, record)) == (KEY, in_deadlines(record))
    assert to_row(*from_row(to_row(KEY, record))) == to_row(KEY, record)


def test_rounds_survive_the_disk(tmp_path):
    path = tmp_path / "rounds.jsonl"
    path.write_text(to_lines(rows_of(KEY, NEXT))[0])
    rounds = [in_deadlines(a_record(number)) for number in (1, 2, 3)]
    assert read_runs(path, *JOB) == {KEY: rounds, NEXT: rounds}


def test_the_check_is_the_crc_of_all_lines_so_far_without_real_time():
    rows = rows_of(KEY)
    lines = to_lines(rows)[0].splitlines()
    lasting = [{k: v for k, v in row.items() if not k.startswith("wall_")} for row in rows]
    so_far = b""
    for line, row in zip(lines, lasting, strict=True):
        so_far += json.dumps(row).encode()
        assert list(json.loads(line))[-1] == "check"
        assert json.loads(line)["check"] == f"{zlib.crc32(so_far):08x}"


def test_lines_can_be_written_one_by_one():
    rows, check, text = rows_of(KEY), 0, ""
    for row in rows:
        line, check = to_lines([row], check)
        text += line
    assert (text, check) == to_lines(rows)


def test_a_torn_last_line_is_dropped(tmp_path):
    text, _ = to_lines(rows_of(KEY))
    path = tmp_path / "rounds.jsonl"
    for cut in range(1, 900, 37):
        path.write_text(text[:-cut])
        kept = text[:-cut].count("\n") + (cut == 1)  # all but the end of a line is a whole line
        assert sum(map(len, read_runs(path, *JOB).values())) == kept


EDITS = {
    "round": [99, 1.5, 2.0, True, -1, None, "2", [2]],
    "strategy": ["fedavg", None, 3, ["fedcore"]],
    "seed": [7, None, [0]],
    "stragglers": [10.0, "30"],
    "benchmark": ["mnist"],
    "test_accuracy": [5.0, -0.1, "0.7", float("nan"), [0.7]],
    "train_accuracy": [1.01],
    "train_loss": [float("inf"), "much", 10**400],
    "round_time": [-1, None, float("nan")],
    "rejected": [None, -1],
    "wall_seconds": ["long"],
    "clients": [None, 3, [3], [{}], [{"client": 1}]],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in EDITS.items() for value in values]
)
@pytest.mark.parametrize("checked", [True, False])
def test_a_line_with_a_value_it_cannot_have_is_refused(tmp_path, name, value, checked):
    rows = [json.loads(line) for line in to_lines(rows_of(KEY, NEXT))[0].splitlines()]
    for row in rows if not checked else ():
        del row["check"]  # as an earlier version wrote it
    rows[1][name] = value
    path = tmp_path / "rounds.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadRecord, match=r"^line 2 of .*; delete the lines from 2 on and resume"):
        read_runs(path, *JOB)


@pytest.mark.parametrize("index", range(6))
@pytest.mark.parametrize(
    ("name", "value"), [("test_accuracy", 0.71), ("train_loss", None), ("participants", 2)]
)
def test_a_value_that_was_changed_is_noticed_in_any_line(tmp_path, index, name, value):
    rows = [json.loads(line) for line in to_lines(rows_of(KEY, NEXT))[0].splitlines()]
    rows[index][name] = value
    path = tmp_path / "rounds.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadRecord, match=rf"line {index + 1} of .*it was changed after"):
        read_runs(path, *JOB)


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize(
    ("order", "line"),
    [
        ((0, 2, 3, 4, 5), 2),  # deleted
        ((1, 2, 3, 4, 5), 1),
        ((0, 0, 1, 2, 3, 4, 5), 2),  # doubled
        ((0, 1, 2, 3, 4, 5, 5), 7),
        ((0, 2, 1, 3, 4, 5), 2),  # swapped
        ((3, 4, 5, 0, 1, 2), 1),
        ((0, 1, 3, 4, 5), 3),  # a run that is not done before the next
    ],
)
def test_lines_out_of_their_places_are_refused(tmp_path, order, line, checked):
    lines = to_lines(rows_of(KEY, NEXT))[0].splitlines(keepends=True)
    if not checked:
        lines = [json.dumps(row) + "\n" for row in rows_of(KEY, NEXT)]
    path = tmp_path / "rounds.jsonl"
    path.write_text("".join(lines[index] for index in order))
    with pytest.raises(BadRecord, match=rf"^line {line} of .*delete the lines from {line} on"):
        read_runs(path, *JOB)


def test_a_misplaced_round_is_named_with_what_belongs_there(tmp_path):
    path = tmp_path / "rounds.jsonl"
    lines = to_lines(rows_of(KEY))[0].splitlines(keepends=True)
    path.write_text(lines[0] + lines[2])
    with pytest.raises(BadRecord) as found:
        read_runs(path, *JOB)
    assert str(found.value) == (
        f"line 2 of {str(path)!r} is not the round that belongs there (round 3 of fedcore at "
        "30.0 % with seed 0 in place of round 2 of fedcore at 30.0 % with seed 0); delete the "
        "lines from 2 on and resume again"
    )


def test_lines_of_an_earlier_version_may_stand_before_checked_ones_only(tmp_path):
    new = to_lines(rows_of(KEY))[0].splitlines(keepends=True)
    old = [json.dumps(row) + "\n" for row in rows_of(KEY)]
    path = tmp_path / "rounds.jsonl"
    path.write_text(old[0] + new[1] + new[2])
    assert len(read_runs(path, *JOB)[KEY]) == 3
    path.write_text(new[0] + old[1] + new[2])
    with pytest.raises(BadRecord, match="line 2 of"):
        read_runs(path, *JOB)


@pytest.mark.parametrize(
    "bad", ["{}", "not json", "[1]", '{"benchmark": 1}', "", "\ufffd", "[" * 100_000, "null"]
)
def test_a_broken_line_in_the_middle_is_named(tmp_path, bad):
    lines = to_lines(rows_of(KEY))[0].splitlines(keepends=True)
    path = tmp_path / "rounds.jsonl"
    path.write_text(lines[0] + bad + "\n" + lines[1])
    with pytest.raises(BadRecord, match="line 2 of"):
        read_runs(path, *JOB)


def test_bytes_that_are_no_text_are_named_by_their_line(tmp_path):
    lines = to_lines(rows_of(KEY))[0].splitlines(keepends=True)
    path = tmp_path / "rounds.jsonl"
    path.write_bytes(lines[0].encode() + lines[1].encode().replace(b"fedcore", b"fed\xffore"))
    with pytest.raises(BadRecord, match="line 2 of"):
        read_runs(path, *JOB)


def test_a_missing_file_has_no_rounds_and_a_folder_in_its_place_is_refused(tmp_path):
    assert read_runs(tmp_path / "none.jsonl", *JOB) == {}
    with pytest.raises(BadRecord, match="cannot be read: Is a directory"):
        read_runs(tmp_path, *JOB)


def test_real_time_stands_last():
    names = list(to_row(KEY, a_record()))
    assert all(name.startswith("wall_") for name in names[-5:])
    assert not any(name.startswith("wall_") for name in names[:-5])


def test_the_end_of_a_run_survives_the_disk_and_is_checked(tmp_path):
    ending = Ending(100.0, 40, 30, 9, None, 0.5, 0.25)
    record = dataclasses.replace(a_record(3), ending=ending)
    assert from_row(to_row(KEY, record))[1].ending == ending
    assert "ending" not in to_row(KEY, a_record())
    rows = [*rows_of(KEY)[:2], to_row(KEY, record)]
    path = tmp_path / "rounds.jsonl"
    for name, value in (("worst_accuracy", 1.5), ("model_bytes", -1), ("deadline_seconds", None)):
        bad = {**rows[2], "ending": {**rows[2]["ending"], name: value}}
        path.write_text("".join(json.dumps(row) + "\n" for row in [*rows[:2], bad]))
        with pytest.raises(BadRecord, match=f"^line 3 of .*its {name} is "):
            read_runs(path, *JOB)


def test_a_line_has_a_step_size_where_several_are_tried():
    tried = dataclasses.replace(KEY, learning_rate=0.03)
    assert from_row(to_row(tried, a_record()))[0] == tried
    assert "learning_rate" not in to_row(KEY, a_record())
