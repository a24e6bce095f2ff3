import pytest

pytest.importorskip("rich")

import io

from rich.console import Console

from fedcore.report.tables import counted, rejections, strategy_title, tables


def result(strategy="fedcore", stragglers=30.0, seed=0, **values):
    return {
        "benchmark": "b",
        "strategy": strategy,
        "stragglers": stragglers,
        "seed": seed,
        "rounds": 12,
        "final_test_accuracy": 0.5,
        "best_test_accuracy": 0.6,
        "mean_test_accuracy_from_round_10": None,
        "final_train_loss": 1.25,
        "mean_round_time": 0.9,
        "max_round_time": 1.0,
        "deadline_miss_share": 0.0,
        **values,
    }


def shown(results, width=80):
    console = Console(width=width, file=io.StringIO())
    for table in tables(results):
        console.print(table)
    return console.file.getvalue()


def test_one_table_per_share_of_stragglers():
    text = shown([result(stragglers=10.0), result(stragglers=30.0)])
    assert "b, 10 % stragglers, 12 rounds, seed 0" in text
    assert "b, 30 % stragglers" in text


def test_nothing_is_cut_off_at_80_columns():
    text = shown([result("fedavg-ds"), result("fedcore")])
    assert "…" not in text
    for word in ("FedAvg-DS", "FedCore", "50.0 %", "60.0 %", "1.250", "0.90", "1.00", "0.0 %"):
        assert word in text


def test_seeds_are_a_median_and_a_range_and_the_longest_round_is_the_longest():
    runs = [result(seed=s, final_test_accuracy=a) for s, a in enumerate((0.5, 0.7, 0.9))]
    runs[1]["max_round_time"] = 1.3
    text = shown(runs, width=120)
    assert "70.0 (50.0-90.0) %" in text
    assert "1.30" in text
    assert "3 seeds" in text


def test_own_strategies_keep_their_name():
    assert strategy_title("my_method") == "my_method"


def seeds_of(strategy="fedcore"):
    accuracies = (0.888, 0.873, 0.907)
    return [
        result(
            strategy,
            seed=seed,
            final_test_accuracy=accuracy,
            best_test_accuracy=accuracy,
            mean_test_accuracy_from_round_10=accuracy,
            final_train_loss=1.25 + accuracy,
            mean_round_time=14.7,
            max_round_time=34.5,
            deadline_miss_share=1.0,
        )
        for seed, accuracy in enumerate(accuracies)
    ]


def at_width(results, width):
    console = Console(width=width, file=io.StringIO())
    for table in tables(results, width=width):
        console.print(table)
    return console.file.getvalue()


def test_several_seeds_can_be_read_at_80_columns():
    text = at_width(seeds_of("fedavg-ds") + seeds_of("fedcore"), 80)
    assert "…" not in text
    words = (
        "FedAvg-DS",
        "FedCore",
        "88.8 %",
        "87.3-90.7",
        "2.138",
        "2.123-2.157",
        "14.70",
        "34.50",
    )
    for word in (*words, "100.0 %"):
        assert word in text


def test_several_seeds_stand_in_one_line_where_there_is_room():
    assert "88.8 (87.3-90.7) %" in at_width(seeds_of(), 1000)


def test_a_long_name_is_folded_and_not_cut():
    name = "a_method_with_a_name_of_many_words"
    text = at_width(seeds_of(name), 80)
    assert "…" not in text
    first_column = [line.strip().split(" ")[0] for line in text.splitlines() if line.strip()]
    assert name in "".join(first_column)


def test_a_name_with_brackets_is_no_markup():
    assert "mine[red]" in shown([result("mine[red]")])


def test_one_round_is_no_rounds():
    assert "1 round," in shown([result(rounds=1)])
    assert counted(1000, "round") == "1,000 rounds"


def test_what_was_left_out_is_told_by_strategy_and_level():
    runs = [result(seed=s, rejected=n) for s, n in enumerate((10, 5))]
    runs += [result("fedavg", rejected=0), result("mine", 10.0, rejected=1)]
    first, second = rejections(runs)
    assert first.startswith(
        "15 answers of FedCore at 30 % stragglers held NaN or infinity and were left out"
    )
    assert second.startswith("1 answer of mine at 10 % stragglers held NaN or infinity and was")
