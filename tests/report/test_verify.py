"""A log is verified as it was written, and whatever is damaged in it is found."""

import json
import shutil

import pytest

from fedcore.cli.grid import run_grid
from fedcore.config import Experiment
from fedcore.errors import BadRecord
from fedcore.report.verify import verify

FEDBUFF = "fedbuff"
HARD = Experiment(
    strategies=("fedavg", "fedcore", FEDBUFF),
    stragglers=(30.0,),
    epochs=3,
    clients_per_round=4,
    selection="uniform",
    capability="phones",
    mean_on=3.0,
    mean_off=0.5,
    dropout=0.15,
    time_budget=12.0,
    data={"clients": 12, "dimension": 3},
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("jobs") / "hard"
    run_grid(HARD, path)
    return path


def lines_of(path, name="events.jsonl"):
    return [json.loads(line) for line in (path / name).read_text().splitlines()]


def write(path, rows, name="events.jsonl"):
    (path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_what_was_written_is_in_order_and_has_all_that_can_happen(written):
    wrong, events = verify(written)
    assert wrong == []
    rows = lines_of(written)
    assert events == len(rows)
    kinds = {"sent", "started", "done", "late", "lost", "cancelled", "merged"}
    assert {row["event"] for row in rows} == kinds
    assert any(row.get("away") for row in rows)
    assert any(row.get("staleness") for row in rows)


def test_rounds_in_which_nobody_works_yet_are_nothing_wrong(tmp_path):
    """Of six clients one is drawn; where it is slow, FedAvg-DS has nothing to send."""
    data = {"clients": 6, "dimension": 3}
    given = {"clients_per_round": 1, "rounds": 8, "stragglers": (80.0,), "data": data}
    run_grid(Experiment(strategies=("fedavg-ds",), seed=(0, 1, 2), **given), tmp_path / "job")
    first = [row for row in lines_of(tmp_path / "job", "rounds.jsonl") if row["round"] == 1]
    assert {row["round_time"] for row in first} == {0.0}
    assert any(row["event"] == "sent" for row in lines_of(tmp_path / "job"))
    assert verify(tmp_path / "job")[0] == []


def test_runs_end_at_the_same_time(written):
    runs = {}
    for row in lines_of(written, "rounds.jsonl"):
        runs.setdefault(row["strategy"], []).append(row)
    for rows in runs.values():
        assert sum(row["round_time"] for row in rows) == pytest.approx(12.0)
        assert ["cut" in row for row in rows] == [False] * (len(rows) - 1) + [True]
    results = json.loads((written / "summary.json").read_text())["results"]
    lengths = {result["strategy"]: result["rounds"] for result in results}
    assert lengths == {strategy: len(rows) for strategy, rows in runs.items()}
    assert lengths["fedcore"] > lengths["fedavg"]


JOB = ("strategy", "client", "base_version", "repeat")


def first(rows, kind, **known):
    """The place of the first event of a kind, with those values."""
    return next(
        place
        for place, row in enumerate(rows)
        if row["event"] == kind and all(row.get(k) == v for k, v in known.items())
    )


def of_same_job(rows, place, kind):
    """The place of another event of the job that has an event at a place."""
    return first(rows, kind, **{name: rows[place][name] for name in JOB})


def change(kind, name, new, seen="itself"):
    """Another value in the event of a kind of the first job that is done; seen at which event."""

    def damage(rows):
        place = of_same_job(rows, first(rows, "done"), kind)
        found = place if seen == "itself" else of_same_job(rows, place, seen)
        rows[place][name] = new(rows[place][name]) if callable(new) else new
        return found

    return damage


def remove(kind, seen):
    def damage(rows):
        place = of_same_job(rows, first(rows, "done"), kind)
        found = of_same_job(rows, place, seen)
        del rows[place]
        return found - 1

    return damage


def double(kind, **other):
    def damage(rows):
        place = first(rows, kind)
        rows.insert(place + 1, rows[place] | other)
        return place + 1

    return damage


def swap(rows):
    place = next(i for i in range(len(rows)) if rows[i + 1]["time"] > rows[i]["time"])
    rows[place], rows[place + 1] = rows[place + 1], rows[place]
    return place + 1


def late_loss(rows):
    place = first(rows, "lost")
    rows[place]["time"] += 1e-3
    return place


def punctual_straggler(rows):
    place = first(rows, "late")
    rows[place]["event"] = "done"
    return place


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (double("sent", repeat=7), "is sent a job while it works on another"),
        (double("sent"), "is sent the same job twice"),
        (remove("sent", seen="started"), "was never sent what is started here"),
        (remove("started", seen="done"), "started at inf, and had the model at"),
        (change("started", "time", 0.0, seen="done"), "started at 0, and had the model at"),
        (change("sent", "speed", lambda c: 1.01 * c, seen="done"), "and was due at"),
        (change("sent", "upload", lambda seconds: seconds + 1.0, seen="done"), "and was due at"),
        (change("sent", "download", lambda seconds: seconds / 2, seen="done"), "had the model"),
        (change("done", "away", lambda seconds: seconds + 0.5), "and was due at"),
        (change("done", "time", lambda time: time + 1e-3), "and was due at"),
        (late_loss, "and was due at"),
        (change("done", "work", lambda work: work - 1), "samples that it was sent"),
        (change("done", "event", "late"), "is late after"),
        (punctual_straggler, "is done after"),
        (double("done"), "ends a job that was over"),
        (double("cancelled"), "ends a job that was over"),
        (remove("done", seen="merged"), "has not answered what is merged here"),
        (double("lost", event="merged", staleness=0), "has not answered what is merged here"),
        (double("merged"), "is merged twice"),
        (change("merged", "client", 999), "client 999 was never sent what is merged here"),
        (change("merged", "staleness", 5), "cannot be 5 merges stale"),
        (swap, "before the one above it"),
        (change("done", "time", "soon"), "it is not what belongs there"),
    ],
)
def test_a_damaged_event_is_found_at_its_line(written, tmp_path, damage, sentence):
    shutil.copytree(written, tmp_path / "job")
    rows = lines_of(written)
    line = damage(rows) + 1
    write(tmp_path / "job", rows)
    wrong, _ = verify(tmp_path / "job")
    found = [one for one in wrong if one.startswith(f"events.jsonl, line {line}: ")]
    assert any(sentence in one for one in found), wrong


def test_a_broken_promise_is_found(written, tmp_path):
    """A job of FedAvg that is late, had it promised not to be."""
    shutil.copytree(written, tmp_path / "job")
    rows = lines_of(written)
    late = rows[first(rows, "late", away=0.0, strategy="fedavg")]
    place = first(rows, "sent", client=late["client"], base_version=late["base_version"])
    rows[place]["promised"] = True
    write(tmp_path / "job", rows)
    (only,) = verify(tmp_path / "job")[0]
    assert "but was promised to keep" in only


@pytest.mark.parametrize(
    ("name", "new", "sentence"),
    [
        ("round_time", lambda time: 0.9 * time, "the round ends at"),
        ("round_time", lambda time: 1.1 * time, "the round ends at"),
        ("rejected", 1, "answers"),
        ("clients", lambda clients: clients[1:], "its clients are not those of its events"),
        ("clients", lambda cs: [cs[0] | {"time": 2 * cs[0]["time"]}, *cs[1:]], "its clients"),
        ("clients", lambda cs: [cs[0] | {"work": 1 + cs[0]["work"]}, *cs[1:]], "its clients"),
        ("clients", lambda cs: [cs[0] | {"client": 99}, *cs[1:]], "its clients"),
        ("round", 77, "its round 2 is not in rounds.jsonl"),
        ("clients", None, "it is not what belongs there"),
    ],
)
def test_rounds_that_say_something_else_are_found(written, tmp_path, name, new, sentence):
    shutil.copytree(written, tmp_path / "job")
    rows = lines_of(written, "rounds.jsonl")
    line = next(i for i, row in enumerate(rows) if row["strategy"] == "fedcore") + 1
    rows[line][name] = new(rows[line][name]) if callable(new) else new
    write(tmp_path / "job", rows, "rounds.jsonl")
    wrong, _ = verify(tmp_path / "job")
    assert any(sentence in found for found in wrong), wrong
    if "round 2" not in sentence:
        assert any(found.startswith(f"rounds.jsonl, line {line + 1}: ") for found in wrong)


def test_a_log_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(BadRecord, match=r"events.jsonl' cannot be read"):
        verify(tmp_path)
