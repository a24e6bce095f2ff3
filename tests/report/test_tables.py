import io

from rich.console import Console

from fedcore.report.tables import strategy_title, tables


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
