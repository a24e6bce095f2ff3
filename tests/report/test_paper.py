"""What the paper printed, under the names that its authors' generator gives benchmarks."""

import json
from pathlib import Path

import pytest

from fedcore.report import paper

ROOT = Path(__file__).parents[2]
PRINTED = json.loads((ROOT / "benchmarks/paper/reference.json").read_text())["paper_table_2"]
EXCHANGED = {"synthetic-0-0": "synthetic-1-1", "synthetic-1-1": "synthetic-0-0"}
# Training loss before round 1 with the authors' seeds: docs/deviations.md
BEFORE = {"synthetic-0-0": 2.3204, "synthetic-0.5-0.5": 2.3201, "synthetic-1-1": 2.3640}


@pytest.mark.parametrize("benchmark", PRINTED)
def test_table_two_is_what_was_printed_with_two_columns_exchanged(benchmark):
    theirs = PRINTED[EXCHANGED.get(benchmark, benchmark)]
    for strategy, levels in paper.benchmarks()[benchmark]["table_2"].items():
        for level, (accuracy, time) in levels.items():
            cell = theirs[strategy][level]
            assert (accuracy, time) == (cell["test_accuracy"], cell["mean_round_time"])


@pytest.mark.parametrize(("benchmark", "loss"), BEFORE.items())
def test_curves_of_synthetic_begin_before_round_1_at_the_loss_of_their_generator(benchmark, loss):
    for curves in paper.curves(benchmark, 30.0).values():
        rounds, values = curves["train_loss"]
        assert rounds == list(range(101))
        assert values[0] == pytest.approx(loss, abs=3e-4)


@pytest.mark.parametrize(("benchmark", "rounds"), [("mnist", 100), ("shakespeare", 30)])
def test_other_curves_begin_at_round_1(benchmark, rounds):
    found = paper.curves(benchmark, 10.0)
    assert set(found) == {"fedavg-ds", "fedprox", "fedcore"}
    for curves in found.values():
        assert set(curves) == {"train_loss", "test_accuracy"}
        assert curves["test_accuracy"][0] == list(range(1, rounds + 1))


def test_curves_agree_with_the_table_by_its_statistic():
    """The mean over rounds >= 10, to a point and a half; FedAvg-DS is off by more."""
    for benchmark in BEFORE:
        for level in (10.0, 30.0):
            for strategy, curves in paper.curves(benchmark, level).items():
                mean = sum(curves["test_accuracy"][1][10:]) / 91
                printed, _ = paper.benchmarks()[benchmark]["table_2"][strategy][f"{level:g}"]
                if strategy != "fedavg-ds":
                    assert 100 * mean == pytest.approx(printed, abs=1.5)


def test_curves_are_those_that_were_read_off_the_figures():
    read_off = ROOT.parent / "shared" / "reference" / "paper-curves.json"
    if not read_off.exists():
        pytest.skip("what was read off the figures is not here")
    panels = {"MNIST": "mnist", "Shakespeare": "shakespeare", "syn55": "synthetic-0.5-0.5"}
    panels |= {"syn11": "synthetic-0-0", "syn00": "synthetic-1-1"}
    names = {"train_loss_curves": "train_loss", "test_acc_curves": "test_accuracy"}
    for key, values in json.loads(read_off.read_text()).items():
        figure, panel, level, strategy = key.split("|")
        found = paper.curves(panels[panel], float(level))[strategy.lower()][names[figure]]
        assert found[1] == values


def test_what_the_paper_does_not_have_has_no_curves():
    assert paper.curves("fashion-mnist", 30.0) == {}
    assert paper.curves("mnist", 20.0) == {}
    assert paper.title_of("fashion-mnist") == "fashion-mnist"
    assert paper.title_of("synthetic-0-0") == "Synthetic (0, 0)"
