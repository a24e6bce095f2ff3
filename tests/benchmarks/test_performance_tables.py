"""Peers and growth as tables: what is not measured or not comparable is said so."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import performance_tables as module
from fedcore.client.executors.by_name import MOST_PRODUCTS


def test_exponents_of_powers():
    sizes = [10, 100, 1000]
    assert module.exponent(sizes, [3.0, 30.0, 300.0]) == pytest.approx(1)
    assert module.exponent(sizes, [5.0, 5.0, 5.0]) == pytest.approx(0)
    assert module.exponent(sizes, [1.0, 100.0, 10_000.0]) == pytest.approx(2)


def test_rows_of_contestants():
    measured = {
        "name": "pfl",
        "variant": "1 threads",
        "seconds per round": 1.5,
        "every turn": [1.5, 2.0],
        "start and end": 3.0,
    }
    assert module._contestant(measured | {"times ours": 71.4}) == [
        "pfl", "1 threads", "1.5", "1.5-2", "71.4", "3.0"
    ]  # fmt: skip
    assert module._contestant(measured | {"no ratio": "other work"})[4] == "none: other work"
    absent = module._contestant({"name": "pfl", "not measured": ["cannot be installed: x"]})
    assert absent[:2] == ["pfl", "not measured: cannot be installed: x"]
    assert len(absent) == 6


def test_growth_is_told_in_the_last_row():
    points = [
        {
            "strategy": strategy,
            "cohort": size,
            "round_seconds": 0.01 * size,
            "peak_megabytes": 1 + size / 1024,
            "cohort_megabytes": size / 1024,
        }
        for strategy in module.STRATEGIES
        for size in (10, 100, 1000)
    ]
    last = module.growth_table(points, "cohort").splitlines()[-1]
    assert last.count("exponent 1.00") == 2
    assert last.count("1 KB a client") == 3


def test_chains_that_auto_compiles_gain_and_the_perceptron_gains_most_of_what_was_asked():
    rows = module._read("chains.json")["chains"]
    assert len(module.chains_table(rows).splitlines()) == 2 + len(rows)
    for row in rows:
        gain = row["plain us"] / row["ours us"]
        taken = row["batch"] * row["parameters"] < MOST_PRODUCTS
        assert row["ours us"] < row["before us"] or not taken
        assert gain >= 15 or (row["widths"], row["batch"]) != ("60-32-10", 8)
        assert row["floor us"] < row["ours us"]
