"""The study of stragglers: its page says what its results say, and these are whole and fair."""

import json
import math
import shutil
import statistics
import sys
from pathlib import Path

import pytest

pytest.importorskip("rich")

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.stragglers import (  # noqa: E402
    conclusions,
    condense,
    figures,
    orderings,
    page,
    picture,
    race,
)
from benchmarks.stragglers.settings import COST, METHODS, PARTS, experiment_of  # noqa: E402

from fedcore import plugins  # noqa: E402
from fedcore.cli.grid import run_grid, runs_of  # noqa: E402
from fedcore.records import RoundRecord  # noqa: E402
from fedcore.report.records import to_lines, to_row  # noqa: E402

MAIN = PARTS["synthetic-1-1"]
STUDIES = page.studies_of("synthetic-1-1")
EVERY = [study for benchmark in PARTS for study in page.studies_of(benchmark)]
BY_FLEET = pytest.mark.parametrize("study", EVERY, ids=lambda s: f"{s['benchmark']}-{s['fleet']}")


def test_the_page_is_not_stale():
    assert page.PAGE.read_text(encoding="utf-8") == page.page()


def test_every_strategy_of_the_lab_is_in_the_study():
    strategies = {METHODS[name].strategy for name in MAIN.methods}
    assert strategies == {*plugins.names("strategy")} - {"timelyfl"}
    samplers = {METHODS[name].options.get("selection") for name in MAIN.methods}
    assert samplers >= {"oort", "tifl", "power-of-choice", "uniform"}
    around_ours = {METHODS[name].options.get("server_optimiser") for name in MAIN.methods}
    assert around_ours >= {"momentum", "adam", "yogi", "adagrad"}


@pytest.mark.parametrize("benchmark", list(PARTS))
def test_every_method_has_the_same_clients_budget_and_grid(benchmark):
    part = PARTS[benchmark]
    for fleet in part.fleets:
        every = [experiment_of(benchmark, fleet, name) for name in part.methods]
        for name in ("seed", "time_budget", "learning_rates", "stragglers", "capability", "epochs"):
            assert len({getattr(one, name) for one in every}) == 1
        assert every[0].learning_rates == part.grid(fleet)


@pytest.mark.parametrize("name", METHODS)
def test_sizes_count_once_in_draws_or_in_weights(name):
    method = METHODS[name]
    drawn = method.options.get("selection", "proportional") in ("proportional", "power-of-choice")
    weighed = method.options.get("aggregation") == "samples" or method.strategy == "fedbalancer"
    assert drawn != weighed


def test_both_fleets_are_there_and_the_page_names_what_is_missing():
    assert [study["fleet"] for study in STUDIES] == list(MAIN.fleets)
    told = " ".join(page.page().split())
    for study in STUDIES:
        assert {*study["methods"], *study["missing"]} == {*MAIN.methods}
        if study["missing"]:
            names = ", ".join(f"`{name}`" for name in study["missing"])
            assert f"on `{study['fleet']}` {names}" in told


@BY_FLEET
def test_every_run_has_its_whole_time_and_no_event_is_wrong(study):
    assert study["events_wrong"] == 0
    part = PARTS[study["benchmark"]]
    for name in study["methods"]:
        results = figures.results_of(study, name)
        assert [one["seed"] for one in results] == list(part.seeds)
        for one in results:
            assert one["virtual_seconds"] == pytest.approx(
                part.deadlines * one["deadline_seconds"], rel=1e-5
            )
            assert len(one["curve"]) == condense.POINTS


@BY_FLEET
def test_the_chosen_step_size_is_the_best_on_the_validation_half(study):
    for method in study["methods"].values():
        best = max(accuracy for _, accuracy in method["tried"])
        chosen = dict(map(tuple, method["tried"]))[method["learning_rate"]]
        assert chosen == best
        grid = [rate for rate, _ in method["tried"]]
        at = {grid[0]: "smallest", grid[-1]: "largest"}.get(method["learning_rate"])
        assert method["edge"] == at


@BY_FLEET
def test_targets_are_shares_of_the_best_final_accuracy(study):
    best = max(figures.final(study, name) for name in study["methods"]) / 100
    shares = [0.90 * best, 0.95 * best, 0.99 * best]
    assert study["targets"] == pytest.approx(shares, rel=1e-5)


def worst_seed(study, name):
    return min(figures.values(study, name, "final_test_accuracy", 100))


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study["fleet"])
def test_the_conclusions_are_what_the_numbers_say(study):
    """Each line is a claim of ``conclusions.py``; methods that were not run are passed over."""
    there = study["methods"]

    def final(name):
        return figures.final(study, name)

    core = final("fedcore")
    assert final("fedavg-ds") < final("fedavg") < core
    assert final("fedavg-os") < core
    for name in conclusions.ON_TIME:
        assert name not in there or worst_seed(study, name) < worst_seed(study, "fedcore") - 10
    for name in conclusions.DRAWN:
        assert name not in there or abs(final(name) - core) < 1
    slow = {name: statistics.median(figures.values(study, name, "slow_accuracy")) for name in there}
    for name in conclusions.PLAIN_ASYNC:
        assert name not in there or slow[name] < slow["fedcore"] - 0.1
    assert final("ca2fl") > core
    for inside, plain in (("fedcore-buff", "fedbuff"), ("fedcore-async", "fedasync")):
        if inside in there and plain in there:
            assert final(inside) > final(plain) + 10
    soon = {n: statistics.median(figures.times_to(study, n, study["targets"][0])) for n in there}
    assert soon["fedcore"] < soon["ca2fl"] < soon["fedavg"] == soon["fedbuff"] == math.inf
    assert soon["tempo"] < soon["fedcore"]
    assert worst_seed(study, "tempo") > final("fedcore") + 3
    assert final("oort") < final("fedavg-uniform")
    above = {*conclusions.ahead_everywhere(STUDIES)}
    assert {"ca2fl", "fedcore-buff"} <= above


def test_a_comparison_of_ten_methods_takes_at_most_three_minutes():
    content = json.loads((figures.RESULTS / "stragglers-cost.json").read_text())
    assert [row["method"] for row in content["methods"]] == list(COST)
    assert len(COST) == 10
    assert sum(row["wall"] for row in content["methods"]) <= 180


def test_the_picture_is_drawn(tmp_path):
    assert picture.draw(STUDIES, tmp_path / "picture.png").stat().st_size > 10_000


def record(number, time, accuracy, *, cut=False):
    measured = {"train_loss": None, "train_accuracy": None, "test_loss": None}
    return RoundRecord(
        number=number,
        seconds=3 * time,
        deadline=3.0,
        clients=(),
        rejected=0,
        test_accuracy=accuracy,
        wall_seconds=0.0,
        cut=cut,
        **measured,
    )


def test_a_curve_holds_the_model_that_is_there():
    experiment = experiment_of("synthetic-1-1", "paper", "fedavg", time_budget=50.0)
    rounds = [record(1, 2.5, 0.3), record(2, 1.5, 0.4), record(3, 46, 0.4, cut=True)]
    expected = [None, None, 0.3, *[0.4] * 47]
    assert condense.curve_of(rounds, experiment) == expected


def study_of(**methods):
    return {"fleet": "f", "methods": {name: {"results": runs} for name, runs in methods.items()}}


def result(seed, accuracy, *seconds):
    """A run whose deadline is 2 s, and when it came to 50, 60, ... %."""
    times = [*seconds, *[None] * (len(condense.FIXED) - len(seconds))]
    told = [{"target": t, "seconds": s} for t, s in zip(condense.FIXED, times, strict=True)]
    return {
        "seed": seed,
        "final_test_accuracy": accuracy,
        "deadline_seconds": 2.0,
        "time_to_accuracy": told,
    }


def test_an_ordering_is_shown_or_refuted_by_all_seeds_alone():
    by_accuracy = orderings.Ordering("a", "b", "accuracy", "")
    better, worse = result(0, 0.8, 1, 2), result(0, 0.7, 4)
    for one, other, expected in (
        ([better, better], [worse, worse], "shown"),
        ([worse, worse], [better, better], "refuted"),
        ([better, worse], [worse, better], "undecided"),
        ([better, better], [better, worse], "undecided"),
    ):
        assert orderings.verdict(study_of(a=one, b=other), by_accuracy) == expected


def test_by_time_whoever_reaches_the_highest_target_first_is_ahead():
    by_time = orderings.Ordering("a", "b", "time", "")
    early, higher, never = result(0, 0.5, 1), result(0, 0.7, 8, 9), result(0, 0.2)
    assert orderings.ahead(study_of(a=[early], b=[higher]), by_time) == (0, 1, 1)
    assert orderings.ahead(study_of(a=[early], b=[result(0, 0.5, 2)]), by_time) == (1, 0, 1)
    assert orderings.ahead(study_of(a=[never], b=[never]), by_time) == (0, 0, 1)
    times = orderings.times(study_of(a=[early], b=[higher]), by_time, "a")
    assert times == "50 %: 0.5, 60 %: never"


def test_times_are_in_deadlines_and_say_in_how_many_seeds():
    assert figures.time_to(result(0, 0.7, 8, 9), 0.6) == 4.5
    assert figures.time_to(result(0, 0.7, 8, 9), 0.7) == math.inf
    assert figures.shown_time([1.0, 2.0, 3.0]) == "2.0"
    assert figures.shown_time([1.0, 2.0, math.inf]) == "2.0 (2 of 3)"
    assert figures.shown_time([1.0, math.inf, math.inf]) == "not reached (1 of 3)"
    assert figures.shown_time([math.inf] * 3) == "not reached"


def test_a_folder_is_condensed_without_its_data_or_its_events(tmp_path, monkeypatch):
    """What comes back from another machine: rounds and summary alone."""
    small = condense.PARTS["synthetic-1-1"].__class__(
        ("fedavg", "fedprox"), ("paper", "phones"), (0,), ((0.001, 0.01),) * 2, 3, {"epochs": 1}
    )
    monkeypatch.setitem(PARTS, "synthetic-1-1", small)
    for name in small.methods:
        folder = tmp_path / "synthetic-1-1" / "paper" / name
        run_grid(experiment_of("synthetic-1-1", "paper", name), folder)
        if name == "fedprox":
            (folder / "events.jsonl").unlink()
    written = condense.condense("synthetic-1-1", "paper", tmp_path, tmp_path)
    study = json.loads(written.read_text())
    assert study["missing"] == []
    assert study["events_verified"] > 0
    assert study["events_wrong"] == 0
    for name in small.methods:
        (one,) = figures.results_of(study, name)
        summary = tmp_path / "synthetic-1-1" / "paper" / name / "summary.json"
        (own,) = json.loads(summary.read_text())["results"]
        assert one["final_test_accuracy"] == pytest.approx(own["final_test_accuracy"], rel=1e-5)
        assert one["merges"] == own["rounds"] - 1
        assert study["methods"][name]["learning_rate"] == own["learning_rate"]
    assert condense.condense("synthetic-1-1", "phones", tmp_path, tmp_path) is None
    finals = {n: one["results"][0]["final_test_accuracy"] for n, one in study["methods"].items()}
    shutil.rmtree(tmp_path / "synthetic-1-1" / "paper" / max(finals, key=finals.get))
    assert json.loads(condense.condense(*_PAPER, tmp_path, tmp_path).read_text()) == study
    study["targets"] = [0.0, 0.0, 0.0]  # as if whoever is there were ahead
    written.write_text(json.dumps(study))
    with pytest.raises(ValueError, match="without their folders"):
        condense.condense(*_PAPER, tmp_path, tmp_path)


_PAPER = ("synthetic-1-1", "paper")


def test_a_race_has_the_first_moment_at_each_step_size_and_the_best_of_them(tmp_path):
    """Hand-made: with 0.001 every seed is there in its second round, with others never."""
    experiment = experiment_of("synthetic-1-1", "paper", "fedcore")
    folder = tmp_path / "synthetic-1-1" / "paper" / "fedcore"
    folder.mkdir(parents=True)
    expected = list(runs_of(experiment))
    rows = []
    for key in expected:
        good = 0.99 if key.learning_rate == 0.001 else 0.1
        for number, accuracy in enumerate((0.2, good, good), 1):
            found = None, None, None, accuracy, 0.1
            record = RoundRecord(number, 4.0, 2.0, (), 0, *found, cut=number == 3)
            rows.append(to_row(key, record))
    (folder / "rounds.jsonl").write_text(to_lines(rows)[0])
    (found,) = race.race(tmp_path, "paper")
    assert found == ("fedcore", 0.001, [4.0] * len(experiment.seed))
    kept = {"method": "fedavg", "learning_rate": 0.1, "deadlines": [1.0]}
    stale = {"method": "fedcore", "learning_rate": 0.1, "deadlines": [9.0]}
    written = tmp_path / "race.json"
    written.write_text(json.dumps({"fleets": {"paper": [kept, stale]}}))
    race.condense(tmp_path, written)
    new = {"method": "fedcore", "learning_rate": 0.001, "deadlines": found[2]}
    assert json.loads(written.read_text())["fleets"] == {"paper": [kept, new], "phones": []}


def test_the_race_of_every_method_is_on_the_page_in_the_order_of_medians():
    for rows in json.loads(race.RESULT.read_text())["fleets"].values():
        assert {row["method"] for row in rows} == {*MAIN.methods}
        medians = [statistics.median(times) for _, _, times in race.ordered(rows)]
        assert medians == sorted(medians)
