"""The study of deadlines: its page says what its results say, and these are whole and fair."""

import json
import math
import statistics
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.deadlines import __main__ as command  # noqa: E402
from benchmarks.deadlines import page, runs, settings  # noqa: E402

STUDIES = page.read()


def test_the_page_is_not_stale():
    assert page.PAGE.read_text(encoding="utf-8") == page.page(STUDIES)


@pytest.mark.parametrize("study", STUDIES, ids=page.title)
def test_all_fixed_deadlines_and_ours_are_there_on_every_seed_and_link(study):
    part = settings.PARTS[study["benchmark"]]
    for send in settings.SENDS:
        for arm in {*settings.FIXED, "auto"}.intersection(part.arms):
            assert sorted(page.times(study, send, arm)) == list(part.seeds)


@pytest.mark.parametrize("study", STUDIES, ids=page.title)
def test_ours_keeps_what_was_wanted_of_it(study):
    every = [ratio for send in settings.SENDS for ratio in page.ratios(study, send).values()]
    assert statistics.median(every) <= page.MEDIAN
    assert max(every) <= page.SLOWEST
    fastest = page.of_percentile(study, settings.SENDS[0])
    assert max(fastest.values()) <= page.OF_THE_PERCENTILE
    assert page.misses([study]) == []


def test_ratios_are_to_the_best_of_the_same_seed():
    rows = [(0, "0.25", 4.0), (0, "1", 8.0), (1, "0.25", 6.0), (1, "1", None), (0, "auto", 5.0)]
    study = {
        "runs": [
            {"seed": s, "send": 0.1, "arm": a, "reached": t}
            for s, a, t in (*rows, (1, "auto", 3.0))
        ]
    }
    assert page.best_fixed(study, 0.1) == {0: 4.0, 1: 6.0}
    assert page.ratios(study, 0.1) == {0: 1.25, 1: 0.5}
    assert page.times(study, 0.1, "1") == {0: 8.0, 1: math.inf}
    assert page.of_percentile(study, 0.1) == {0: 5 / 8, 1: 0.0}


def test_a_run_ends_with_the_target_and_sending_takes_its_share():
    found = runs.arm("synthetic-1-1", "tempo", 100, 0.5, "0.25", 0.2, device="cpu", threads=1)
    assert found["target"] == pytest.approx(0.95 * 0.2)
    assert found["curve"][-1][1] >= found["target"]
    assert all(accuracy < found["target"] for _, accuracy in found["curve"][:-1])
    assert found["reached"] == pytest.approx(found["rounds"] * 0.75, rel=0.01)
    assert {round(value, 6) for value in found["deadlines"]} == {0.75}


@pytest.mark.parametrize("strategy", settings.STRATEGIES)
def test_a_fixed_deadline_over_one_link_tells_of_the_others(strategy):
    trained = [
        runs.arm("synthetic-1-1", strategy, 100, send, "0.25", 0.2, device="cpu", threads=1)
        for send in (0.5, 2.0)
    ]
    told = runs.over(trained[0], 0.5, 2.0, "synthetic-1-1")
    for name in ("reached", "passed", "rounds"):
        assert told[name] == pytest.approx(trained[1][name], rel=1e-12)
    assert runs.over({**trained[0], "reached": None}, 0.5, 2.0, "synthetic-1-1") is None
    # Its time is up after 300; a round that has begun by then is finished.
    for rounds, reached, passed in ((100, 299, 299), (102, 301, 301), (110, None, 107 * 309 / 110)):
        found = {"reached": 199.0, "passed": 199.0, "rounds": rounds}
        told = runs.over(found, 1, 2, "synthetic-1-1")
        assert told["reached"] == reached
        assert told["passed"] == pytest.approx(passed)


def test_what_is_done_is_left_alone_and_condensed(tmp_path, monkeypatch):
    told = {
        "reached": 2.0,
        "target": 0.5,
        "passed": 2.0,
        "rounds": 9,
        "tau30": 7.0,
        "commit": "abc",
        "deadlines": [1.0],
    }
    path = tmp_path / "synthetic-1-1" / "tempo" / "3" / "0.1-auto.json"
    assert command.done(path, lambda: told) == told
    assert command.done(path, lambda: pytest.fail("it is there")) == told
    at = tmp_path / "results"
    written = json.loads(command.condense("synthetic-1-1", "tempo", tmp_path, at).read_text())
    first = {"seed": 3, "send": 0.1, "arm": "auto", **told}
    assert written["runs"] == [first]

    # Another machine has other runs; those that it does not have stay.
    other = path.parent / "0.01-1.json"
    path.rename(other)
    written = json.loads(command.condense("synthetic-1-1", "tempo", tmp_path, at).read_text())
    kept = {key: told[key] for key in command.KEPT}
    assert written["runs"] == [{"seed": 3, "send": 0.01, "arm": "1", **kept}, first]


def test_the_target_on_mnist_is_the_first_seeds_on_all(monkeypatch):
    asked = []

    def pieces(**wanted):
        asked.append(wanted["seed"])
        return [{"rounds": 100, "final_test_accuracy": 0.9}]

    monkeypatch.setattr(runs, "pieces", pieces)
    for benchmark in ("mnist", "synthetic-1-1"):
        assert runs.reference(benchmark, 2) == {"accuracy": 0.9}
    assert asked == [0, 2]
