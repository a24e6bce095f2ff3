import json
from functools import partial

import pytest

from fedcore.cli.grid import runs_of
from fedcore.cli.pieces import claimed, rounds_of, run_piece
from fedcore.cli.table2 import Piece
from fedcore.errors import BadOption
from fedcore.history import environment
from fedcore.report.output import CHECKPOINT, EVENTS, ROUNDS, SUMMARY, load_model, model_name
from fedcore.report.verify import verify

OPTIONS = {"rounds": 4, "epochs": 2, "clients_per_round": 3, "device": "cpu", "threads": 1}
CORE = Piece("paper", "synthetic-1-1", 30.0, "fedcore", 0)
AVERAGE = Piece("paper", "synthetic-1-1", 30.0, "fedavg", 0)


class Killed(BaseException):
    pass


def rows(place, name=ROUNDS):
    """Lines without real times, and without the check that is made of the others."""
    found = map(json.loads, (place / name).read_text().splitlines())
    return [{k: v for k, v in row.items() if not k.startswith("wall_")} for row in found]


def result(place):
    content = json.loads((place / SUMMARY).read_text())
    return [{k: v for k, v in one.items() if k != "wall_seconds"} for one in content["results"]]


def killed_after(count, experiment, start, known):
    for number, item in enumerate(rounds_of(experiment, start, known), 1):
        yield item
        if number == count:
            raise Killed


def trains_from(seen, experiment, start, known):
    for item in rounds_of(experiment, start, known):
        seen.append(item[0].number)
        yield item


@pytest.mark.parametrize("piece", [CORE, AVERAGE], ids=lambda p: p.strategy)
@pytest.mark.parametrize("count", [1, 4])
def test_a_killed_piece_goes_on_after_its_last_round_to_the_same_numbers(tmp_path, piece, count):
    run_piece(piece, tmp_path / "whole", OPTIONS)
    with pytest.raises(Killed):
        run_piece(piece, tmp_path / "killed", OPTIONS, partial(killed_after, count))
    place, whole = tmp_path / "killed" / piece.path, tmp_path / "whole" / piece.path
    assert len(rows(place)) == count
    assert not (place / SUMMARY).exists()
    seen = []
    run_piece(piece, tmp_path / "killed", OPTIONS, partial(trains_from, seen))
    assert seen == list(range(count + 1, 5))
    assert rows(place) == rows(whole)
    assert rows(place, EVENTS) == rows(whole, EVENTS)
    assert result(place) == result(whole)
    assert not (place / CHECKPOINT).exists()
    (run,) = runs_of(piece.experiment(OPTIONS))
    one, other = (load_model(folder / model_name(run)) for folder in (place, whole))
    assert all((one[name] == other[name]).all() for name in other)
    assert set(one) == set(other)


def test_a_finished_piece_is_left_as_it_is(tmp_path):
    run_piece(CORE, tmp_path, OPTIONS)
    before = {path.name: path.read_bytes() for path in (tmp_path / CORE.path).iterdir()}

    def never(*_):
        raise AssertionError

    run_piece(CORE, tmp_path, OPTIONS, never)
    assert {p.name: p.read_bytes() for p in (tmp_path / CORE.path).iterdir()} == before


def test_a_folder_of_other_options_is_refused(tmp_path):
    run_piece(CORE, tmp_path, OPTIONS)
    with pytest.raises(
        BadOption, match=r"rounds is 5 but the job in .* has 4; resume with the same"
    ):
        run_piece(CORE, tmp_path, {**OPTIONS, "rounds": 5})


@pytest.mark.parametrize("way", ["paper", "authors-code-chained"])
def test_fedavg_at_another_level_is_the_same_training_and_is_not_done_twice(tmp_path, way):
    first, second = (Piece(way, "synthetic-1-1", s, "fedavg", 3) for s in (10.0, 30.0))
    run_piece(second, tmp_path / "trained", OPTIONS)
    run_piece(first, tmp_path / "replayed", OPTIONS)
    given = []

    def look(experiment, start, known):
        given.append(known)
        return rounds_of(experiment, start, known)

    run_piece(second, tmp_path / "replayed", OPTIONS, look)
    assert given[0] is not None
    trained, replayed = (tmp_path / name / second.path for name in ("trained", "replayed"))
    assert rows(replayed) == rows(trained)
    assert rows(replayed, EVENTS) == rows(trained, EVENTS)
    assert result(replayed) == result(trained)
    assert rows(replayed) != rows(tmp_path / "replayed" / first.path)  # its deadline is another
    (run,) = runs_of(second.experiment(OPTIONS))
    one, other = (load_model(folder / model_name(run)) for folder in (replayed, trained))
    assert all((one[name] == other[name]).all() for name in other)
    assert verify(replayed)[0] == []


@pytest.mark.parametrize(
    "own",
    [
        {"mean_on": 3.0, "mean_off": 2.0},  # there and away for so many deadlines
        {"time_budget": 30.0},
        {"selection": "power-of-choice"},
        {"deadline": "auto"},
    ],
    ids=lambda own: next(iter(own)),
)
def test_where_fedavg_goes_by_the_deadline_each_level_is_trained(tmp_path, own):
    first, second = (Piece("paper", "synthetic-1-1", s, "fedavg", 0) for s in (10.0, 30.0))
    run_piece(second, tmp_path / "alone", OPTIONS | own)
    for piece in (first, second):
        run_piece(piece, tmp_path / "both", OPTIONS | own)
    assert rows(tmp_path / "both" / second.path) == rows(tmp_path / "alone" / second.path)


def test_a_piece_that_was_killed_goes_on_beyond_its_rounds_where_time_ends_it(tmp_path):
    """Of 4 rounds, which a budget of time does not count."""
    own = OPTIONS | {"time_budget": 6.0}
    run_piece(CORE, tmp_path / "whole", own)
    with pytest.raises(Killed):
        run_piece(CORE, tmp_path / "killed", own, partial(killed_after, 4))
    run_piece(CORE, tmp_path / "killed", own)
    whole, killed = (tmp_path / name / CORE.path for name in ("whole", "killed"))
    assert len(rows(whole)) > 4
    assert rows(killed) == rows(whole)
    assert result(killed) == result(whole)


def test_other_strategies_and_rejected_answers_are_trained(tmp_path):
    given = []

    def look(experiment, start, known):
        given.append(known)
        return rounds_of(experiment, start, known)

    for level in (10.0, 30.0):
        piece = Piece("paper", "synthetic-1-1", level, "fedprox", 0)
        run_piece(piece, tmp_path, OPTIONS, look)
    run_piece(Piece("paper", "synthetic-1-1", 10.0, "fedavg", 0), tmp_path, OPTIONS, look)
    path = tmp_path / "paper/synthetic-1-1/seed-0/fedavg/10" / ROUNDS
    assert '"rejected": 0' in path.read_text()
    lines = [json.loads(line) | {"rejected": 1} for line in path.read_text().splitlines()]
    for line in lines:
        del line["check"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_piece(AVERAGE, tmp_path, OPTIONS, look)
    assert given == [None] * 4


def test_who_trained_stands_beside_the_rounds(tmp_path):
    def elsewhere(experiment, start, known):
        for record, snapshot, who, data in rounds_of(experiment, start, known):
            yield record, snapshot, {**who, "device": "another"}, data

    with pytest.raises(Killed):
        run_piece(CORE, tmp_path, OPTIONS, partial(killed_after, 2))
    run_piece(CORE, tmp_path, OPTIONS, elsewhere)
    place = tmp_path / CORE.path
    lines = [json.loads(line) for line in (place / "provenance.jsonl").read_text().splitlines()]
    told = [(line["from_round"], line["device"]) for line in lines]
    assert told == [(1, environment()["device"]), (3, "another")]
    assert {"fedcore", "torch", "numpy", "python", "commit", "processor"} < set(lines[0])
    content = json.loads((place / SUMMARY).read_text())
    assert content["environment"]["device"] == "another"
    assert (content["data"]["clients"], content["data"]["samples"]) == (30, 20_101)


def test_a_folder_is_one_workers_at_a_time(tmp_path):
    with claimed(tmp_path / "a") as ours:
        assert ours
        with claimed(tmp_path / "a") as theirs:
            assert not theirs
        with claimed(tmp_path / "b") as theirs:
            assert theirs
    with claimed(tmp_path / "a") as ours:
        assert ours
