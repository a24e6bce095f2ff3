"""Documents say what the committed results say, and the results meet what is claimed of them."""

import json
import re
import statistics
import sys
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("rich")

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.paper import table2  # noqa: E402

from benchmarks import tables  # noqa: E402
from fedcore.report import paper  # noqa: E402
from fedcore.sources.benchmark import find  # noqa: E402

CONTENT = tables.read("synthetic.json")
REFERENCE = json.loads(tables.REFERENCE.read_text())
CELLS = [(b, s) for b in tables.SETS for s in (10, 30)]


def test_the_page_of_results_is_not_stale():
    assert (ROOT / "docs" / "results.md").read_text() == tables.results_page()


def test_the_readme_is_not_stale():
    readme = (ROOT / "README.md").read_text()
    assert tables.BEGIN in readme
    assert readme == tables.with_table(readme)


def test_the_page_on_performance_is_not_stale():
    page = (ROOT / "docs" / "performance.md").read_text()
    assert tables.BEGIN in page
    for name in ("peers", "lab-peers", "cohort", "fleet"):
        assert f"<!-- begin: make results {name} -->" in page
    assert page == tables.with_speed(page)


def test_the_page_on_deployment_is_of_the_committed_results():
    page = (ROOT / "docs" / "deployment.md").read_text()
    assert page == tables.with_deployment(page)


def test_every_model_and_strategy_agreed_with_the_plain_loop_on_the_gpu():
    equality = tables.read("simulator-check-cuda.json")["equality"]
    assert len(equality) == 16
    assert max(equality.values()) <= 1e-6


def test_on_synthetic_ours_is_ten_times_faster_than_the_peers_on_the_same_work():
    synthetic, _ = tables.read("peers.json")["workloads"]
    rows = {row["name"]: row for row in synthetic["contestants"]}
    for name in ("plain loop", "Flower", "pfl"):
        assert rows[name]["distance"] <= 1e-3
        assert rows[name]["times ours"] >= 10


def test_a_step_of_ours_is_ten_times_faster_than_in_simulators_of_stragglers():
    rows = tables.read("lab-peers.json")["rows"]
    for method in ("fedavg", "fedbuff"):
        found = {row["name"]: row for row in rows if row["method"] == method}
        assert set(found) == {"ours", "flgo", "flsim", "appfl", "appfl, keeping garbage"}
        ours = found.pop("ours")
        assert ours["repeats itself"]
        assert ours["weights changed by evaluation"] == 0
        measured = [row for row in found.values() if "not measured" not in row]
        assert len(measured) >= 3
        for row in measured:
            assert row["CPU microseconds a step"] >= 10 * ours["CPU microseconds a step"]


def test_memory_follows_the_cohort_and_not_the_fleet():
    report = tables.read("growth.json")
    largest = [point for point in report["fleet"] if point["fleet"] == 100_000]
    assert len(largest) == 2
    for point in largest:
        assert point["peak_megabytes"] < 0.01 * point["fleet_megabytes"]
    for point in report["cohort"]:
        if point["cohort"] == 1000:
            assert point["peak_megabytes"] < 3 * point["cohort_megabytes"]


@pytest.mark.parametrize("name", ["mnist", "shakespeare"])
def test_neural_runs_are_on_time_and_nobody_is_dropped(name):
    for results in tables.read(f"{name}.json")["results"].values():
        for run in results:
            if run["strategy"] != "fedavg":
                assert run["max_round_time"] <= 1
            if run["strategy"] == "fedcore":
                assert "sat-out" not in run["paths"]


def median(benchmark, strategy, stragglers, name="final_test_accuracy"):
    runs = tables.pick(CONTENT["results"]["paper"], benchmark, strategy, stragglers)
    assert len(runs) == 5
    return sorted(run[name] for run in runs)[2]


@pytest.mark.parametrize(("dataset", "stragglers"), CELLS)
def test_fedcore_is_at_most_a_point_behind_fedavg_and_far_ahead_of_dropping(dataset, stragglers):
    fedavg, dropping, fedcore = (
        median(dataset, s, stragglers) for s in ("fedavg", "fedavg-ds", "fedcore")
    )
    assert fedcore >= fedavg - 0.01
    assert dropping < fedcore - 0.1


@pytest.mark.parametrize("job", ["paper", "paper-with-prox", "authors-code"])
def test_only_fedavg_is_ever_late(job):
    for run in CONTENT["results"][job]:
        if run["strategy"] == "fedavg":
            assert run["mean_round_time"] > 1
        else:
            assert run["max_round_time"] <= 1


@pytest.mark.parametrize(("dataset", "stragglers"), CELLS)
@pytest.mark.parametrize("strategy", list(tables.TITLES))
def test_the_authors_runs_again(dataset, stragglers, strategy):
    """Within 0.7 points (FedAvg-DS: 4) of the authors' code, with its round-1 defect."""
    name = "mean_train_accuracy_from_round_10"
    theirs = REFERENCE["authors_code"][dataset][strategy][str(stragglers)][name]
    runs = tables.pick(CONTENT["results"]["authors-code-chained"], dataset, strategy, stragglers)
    allowed = 4 if strategy == "fedavg-ds" else 0.7
    assert abs(100 * runs[0][name] - theirs) <= allowed


@pytest.mark.parametrize(
    ("strategy", "times"),
    [
        ("fedavg", (1.37, 4.80)),
        ("fedavg-ds", (0.69, 0.79)),
        ("fedprox", (0.86, 0.95)),
        ("fedcore", (0.93, 1.00)),
    ],
)
def test_the_authors_times_to_two_decimals(strategy, times):
    for benchmark in tables.SETS:
        for stragglers, expected in zip((10, 30), times, strict=True):
            for run in tables.pick(
                CONTENT["results"]["authors-code"], benchmark, strategy, stragglers
            ):
                assert round(run["mean_round_time"], 2) == expected


def test_half_of_the_papers_gap_on_shakespeare_is_closed_with_larger_steps():
    """44.9 - 34.8 = 10.1 points in the paper, by the mean over rounds >= 10."""
    larger = ("core-catch-up", "linked-catch-up")
    for job in (*larger, "few-epochs-catch-up", "linked-few-epochs-catch-up"):
        assert tables.neural.shakespeare_gap(job) <= 10.1 / 2
        (run,) = tables.read("shakespeare.json")["results"][job]
        assert run["rounds"] == 30
        assert run["deadline_misses"] == 0


def test_shakespeare_is_drawn(tmp_path):
    picture = tables.neural_plot.draw(tmp_path / "picture.png")
    assert picture.stat().st_size > 10_000
    assert {title for title, _, _ in tables.neural_plot.curves()} >= {"FedAvg", "FedCore"}
    for _, _, result in tables.neural_plot.curves():
        assert len(result["round_times"]) == len(result["test_accuracies"]) == result["rounds"]


def test_the_readme_says_of_shakespeare_what_was_measured():
    readme = " ".join((ROOT / "README.md").read_text().split())
    final = "final_test_accuracy"
    own, larger = (tables.neural.shakespeare_gap(j, final) for j in ("core", "core-catch-up"))
    assert f"ends {own:.0f} points below it, and {larger:.0f} with steps" in readme
    results = tables.read("shakespeare.json")["results"]
    (average,), (core,) = results["avg"], results["few-epochs-catch-up"]
    assert f"{average['mean_round_time']:.0f}" == "11"
    assert "eleven deadlines in the mean" in readme
    assert max(average["test_accuracies"]) < core["test_accuracies"][-1]
    elapsed = (sum(run["round_times"]) for run in (core, average))
    after, never = (f"{deadlines:.0f}" for deadlines in elapsed)
    assert f"ends level: after {after} deadlines" in readme
    assert f"FedAvg does not get in {never}." in readme


def test_fedprox_with_larger_steps_is_on_either_side_of_fedcore_by_seed():
    """As docs/results.md says: by less than a point, in the mean and at the end."""
    results = tables.read("shakespeare.json")["results"]
    for figure in ("mean_test_accuracy_from_round_10", "final_test_accuracy"):
        first, second = (
            100
            * (
                results[f"{seed}few-epochs-catch-up"][0][figure]
                - results[f"{seed}prox-catch-up"][0][figure]
            )
            for seed in ("", "again-")
        )
        assert 0 < first < 1
        assert -1 < second < 0


def test_the_readme_says_how_much_longer_fedavg_takes_over_all_fleets():
    readme = " ".join((ROOT / "README.md").read_text().split())
    ratios = {}
    for stragglers in (10, 30):
        average, core = (
            [
                run["mean_round_time"]
                for benchmark in tables.SETS
                for run in tables.pick(CONTENT["results"]["paper"], benchmark, name, stragglers)
            ]
            for name in ("fedavg", "fedcore")
        )
        ratios[stragglers] = [a / c for a, c in zip(average, core, strict=True)]
    (low, high), (least, most) = ((min(r), max(r)) for r in ratios.values())
    assert f"{low:.1f} to {high:.0f} times as long at 10 % of stragglers" in readme
    assert f"and {least:.1f} to {most:.0f} times at 30 %" in readme


def test_the_readme_says_how_far_fedprox_falls_at_30_percent():
    readme = " ".join((ROOT / "README.md").read_text().split())
    gaps = [100 * (median(b, "fedavg", 30) - median(b, "fedprox", 30)) for b in tables.SETS]
    assert f"ends {int(min(gaps))} to {int(max(gaps))} points below FedAvg at 30 %" in readme


def test_the_page_on_performance_has_the_launches_and_ratios_of_the_results():
    page = " ".join((ROOT / "docs" / "performance.md").read_text().split())
    steps = tables.read("simulator-check-cuda.json")["one step, ms"]
    for name, step in zip(("logistic,", "CNN,", "LSTM,"), steps, strict=True):
        launches = step["kernels"][0].split(", ")[1].split()[0]
        assert re.search(rf"\| {name} [^|]*\|[^|]*\|[^|]*\| {launches}[ :]", page)
    cnn = next(row for row in tables.read("simulator-cpu.json")["speed"] if row["model"] == "cnn")
    assert f"The {cnn['times faster']:.2f} of the first table" in page
    in_turns = cnn["plain ms, in turns with ours"] / cnn["ours ms"]
    assert f"is {in_turns:.2f} against the plain loop in turns with ours" in page


@pytest.mark.parametrize("level", table2.LEVELS)
@pytest.mark.parametrize("benchmark", table2.BENCHMARKS)
def test_by_the_authors_code_fedcore_is_within_two_points_of_the_paper(benchmark, level):
    one = table2.as_published(benchmark, level)
    first, *_ = find(benchmark).hyperparameters("authors-code").get("seed", (0,))
    assert one["seed"] == first
    unchained = (benchmark, level) == ("shakespeare", 30)
    assert one["way"] == ("authors-code" if unchained else "authors-code-chained")
    accuracy, time = paper.benchmarks()[benchmark]["table_2"]["fedcore"][str(level)]
    assert table2.statistic_of(one) >= accuracy - 2
    assert one["mean_round_time"] == pytest.approx(time, rel=0.05)


def test_the_readme_says_how_far_the_farthest_of_the_ten_is():
    columns = list(product(table2.BENCHMARKS, table2.LEVELS))
    theirs = [paper.benchmarks()[b]["table_2"]["fedcore"][str(level)][0] for b, level in columns]
    ours = [table2.statistic_of(table2.as_published(*column)) for column in columns]
    worst = max(one - other for one, other in zip(theirs, ours, strict=True))
    page = " ".join((ROOT / "README.md").read_text().split())
    assert (
        f"FedCore is within {worst:.1f} points of the paper's figure, or above it, in all" in page
    )
    alone = [
        table2.pieces(way="authors-code", benchmark=b, stragglers=level, strategy="fedcore")
        for b, level in columns
    ]
    gaps = [
        other - table2.statistic_of(min(found, key=table2.key_of))
        for other, found in zip(theirs, alone, strict=True)
    ]
    assert f"without the defect it is up to {max(gaps):.1f} points below, on MNIST" in page
    assert max(gaps) == gaps[columns.index(("mnist", 10))]


def test_other_times_are_within_a_twentieth_of_the_papers_or_named():
    page = " ".join(table2.section().split())
    for benchmark, level, strategy in product(table2.BENCHMARKS, table2.LEVELS, table2.STRATEGIES):
        if one := table2.as_published(benchmark, level, strategy):
            title, theirs = paper.title_of(benchmark), paper.benchmarks()[benchmark]["table_2"]
            named = (
                f"{table2.TITLES[strategy]} on {title} at {level} % {one['mean_round_time']:.2f}"
            )
            near = one["mean_round_time"] == pytest.approx(
                theirs[strategy][str(level)][1], rel=0.05
            )
            assert near == (named not in page)


def test_every_piece_of_the_text_stands_beside_its_fedavg_and_says_who_made_it():
    alone, page = table2.without_fedavg("paper"), table2.section()
    assert alone == ["shakespeare"]  # and nobody else; [] once it is there
    for one in table2.pieces(way="paper"):
        of = {name: one[name] for name in ("way", "benchmark", "stragglers", "seed")}
        if one["benchmark"] in alone:
            assert "FedAvg by the text is not there yet of Shakespeare." in page
        else:
            assert len(table2.pieces(**of, strategy="fedavg")) == 1
        assert one["strategy"] == "fedavg" or one["deadline_misses"] == 0
    for one in table2.pieces():
        assert {"commit", "torch", "device"} <= set(one["made"][0])


def test_what_the_readme_says_of_mnist():
    def final(strategy, level, way="paper"):
        of = {"way": way, "benchmark": "mnist", "seed": 0, "stragglers": level}
        (one,) = table2.pieces(**of, strategy=strategy)
        return one

    def behind(*of):
        name = "final_test_accuracy"
        return [100 * (final("fedavg", s)[name] - final(of[0], s, *of[1:])[name]) for s in levels]

    levels = table2.LEVELS
    below, ours = behind("fedcore"), behind("tempo", "best")
    times = final("fedavg", 30)["mean_round_time"] / final("fedcore", 30)["mean_round_time"]
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert (
        f"{below[0]:.1f} points below FedAvg at 10 % of stragglers and {below[1]:.1f} at" in readme
    )
    told = (
        f"FedAvg takes {times:.0f} times as long; Tempo ends {ours[0]:.1f} and {ours[1]:.1f} below"
    )
    assert told in readme


def test_what_the_readme_says_of_tempo_on_synthetic():
    def final(job, *of):
        rows = CONTENT["results"][job]
        found = (r for r in rows if (r["strategy"], r["benchmark"], r["stragglers"]) == of)
        return statistics.median(100 * row["final_test_accuracy"] for row in found)

    above = [final("tempo", "tempo", *one) - final("paper", "fedavg", *one) for one in CELLS]
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"Tempo ends {min(above):.1f} to {max(above):.1f} points above FedAvg" in readme
