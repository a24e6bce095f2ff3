from collections import Counter

import pytest

from fedcore.cli.table2 import BENCHMARKS, STRATEGIES, WAYS, pieces_of
from fedcore.errors import BadOption

EVERYTHING = (",".join(BENCHMARKS), "10,30", "1", ",".join(WAYS))


def flat(units):
    return [piece for unit in units for piece in unit]


def test_the_preset_of_the_text_has_every_cell_of_the_table_once():
    pieces = flat(pieces_of(*EVERYTHING[:3], "paper"))
    cells = Counter((p.benchmark, p.stragglers, p.strategy) for p in pieces)
    wanted = {(b, s, name) for b in BENCHMARKS for s in (10.0, 30.0) for name in STRATEGIES}
    assert set(cells) == wanted
    assert set(cells.values()) == {1}
    assert len({piece.path for piece in pieces}) == 5 * 2 * 4


def test_fedavg_at_all_levels_is_one_unit_and_everybody_else_is_alone():
    for unit in pieces_of(*EVERYTHING):
        if unit[0].strategy == "fedavg":
            assert [piece.stragglers for piece in unit] == [10.0, 30.0]
            assert len({(p.way, p.benchmark, p.seed) for p in unit}) == 1
        else:
            assert len(unit) == 1


def test_results_come_in_the_order_in_which_they_are_wanted():
    pieces = flat(pieces_of("shakespeare,mnist", "10,30", "3", "authors-code,paper"))
    found = list(dict.fromkeys((p.seed, p.way, p.benchmark) for p in pieces))
    ways = [(way, name) for way in ("paper", "authors-code") for name in ("mnist", "shakespeare")]
    assert found == [(seed, *rest) for seed in range(3) for rest in ways]
    text = [p.stragglers for p in pieces if p.benchmark == "shakespeare" and p.strategy != "fedavg"]
    assert text[:6] == [10.0] * 3 + [30.0] * 3


def test_our_best_is_tempo_alone_and_the_first_round_is_chained_everywhere():
    pieces = flat(pieces_of(*EVERYTHING))
    assert {p.strategy for p in pieces if p.way == "best"} == {"tempo"}
    chained = {p.benchmark for p in pieces if p.way == "authors-code-chained"}
    assert chained == set(BENCHMARKS)


def test_seeds_count_from_those_that_the_authors_published():
    pieces = flat(pieces_of("synthetic-1-1", "30", "2", "authors-code,paper"))
    seeds = {way: sorted({p.seed for p in pieces if p.way == way}) for way in WAYS}
    assert seeds["authors-code"] == [3, 4]
    assert seeds["paper"] == [0, 1]


def test_a_piece_is_an_experiment_of_its_preset():
    (piece,) = [
        p
        for p in flat(pieces_of("shakespeare", "10", "1", "authors-code"))
        if p.strategy == "fedcore"
    ]
    found = piece.experiment({"device": "cpu"})
    assert (found.rounds, found.epochs, found.preset) == (40, 5, "authors-code")
    assert (found.strategies, found.stragglers, found.seed) == (("fedcore",), (10.0,), (0,))
    assert piece.experiment({"rounds": 2}).rounds == 2


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (0, "cifar", "only must be one of mnist, shakespeare, .*, got 'cifar'"),
        (0, "", "only must name at least one"),
        (1, "0", "stragglers must be percentages above 0"),
        (1, "ten", "stragglers must be numbers such as 10,30, got 'ten'"),
        (2, "0", "seeds must be at least 1, got 0"),
        (3, "text", "preset must be one of paper, .*, got 'text'"),
    ],
)
def test_what_cannot_be_is_one_sentence(place, value, sentence):
    asked = list(EVERYTHING)
    asked[place] = value
    with pytest.raises(BadOption, match=sentence):
        pieces_of(*asked)
