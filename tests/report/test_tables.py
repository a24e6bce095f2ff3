import pytest

pytest.importorskip("rich")

import io

import pytest

pytest.importorskip("rich")
from rich.console import Console

from fedcore.report.grids import (
    cost_grids,
    counted,
    level_grids,
    remarks,
    short,
    step_size_remarks,
    strategy_title,
)
from fedcore.report.tables import table_of


def tables(results):
    return map(table_of, level_grids(results))


def cost_tables(results):
    return map(table_of, cost_grids(results))


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


def shown(results, width=80, make=tables):
    console = Console(width=width, file=io.StringIO())
    for table in make(results):
        console.print(table)
    return console.file.getvalue()


def test_one_table_per_share_of_stragglers():
    text = shown([result(stragglers=10.0), result(stragglers=30.0)])
    assert "b, 10 % stragglers, 12 rounds, seed 0" in text
    assert "b, 30 % stragglers" in text


def test_runs_of_different_length_are_told():
    text = shown([result("fedavg", rounds=3), result("fedcore", rounds=1200)])
    assert "b, 30 % stragglers, 3 to 1,200 rounds, seed 0" in text


def test_a_long_round_is_late_only_where_some_round_was():
    """A controller may give a round more than the deadline of the fleet, in which times are."""
    for share in (0.0, 0.25):
        long = result(mean_round_time=2.5, max_round_time=4.0, deadline_miss_share=share)
        (grid,) = level_grids([long])
        late = [cell.text for cell in grid.rows[0] if cell.style == "late"]
        assert late == (["2.50", "4.00"] if share else [])


def test_nothing_is_cut_off_at_80_columns():
    text = shown([result("fedavg-ds"), result("fedcore")])
    assert "…" not in text
    for word in ("FedAvg-DS", "FedCore", "50.0 %", "60.0 %", "1.250", "0.90", "1.00", "0.0 %"):
        assert word in text


def test_seeds_are_a_median_and_a_range_and_the_longest_round_is_the_longest():
    runs = [result(seed=s, final_test_accuracy=a) for s, a in enumerate((0.5, 0.7, 0.9))]
    runs[1]["max_round_time"] = 1.3
    text = shown(runs, width=120)
    assert "70.0 %" in text
    assert "50.0-90.0" in text
    assert "1.30" in text
    assert "3 seeds" in text


def test_titles_come_from_the_files_of_strategies():
    assert strategy_title("fedavg-ds") == "FedAvg-DS"
    assert strategy_title("fedcore") == "FedCore"
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
            mean_round_time=14.7 + seed,
            max_round_time=34.5,
            deadline_miss_share=1.0,
        )
        for seed, accuracy in enumerate(accuracies)
    ]


def test_several_seeds_can_be_read_at_80_columns():
    text = shown(seeds_of("fedavg-ds") + seeds_of("fedcore"), 80)
    assert "…" not in text
    words = (
        "FedAvg-DS",
        "FedCore",
        "88.8 %",
        "87.3-90.7",
        "2.138",
        "2.123-2.157",
        "15.70",
        "14.70-16.70",
        "34.50",
        "Rounds",
    )
    for word in (*words, "100.0 %"):
        assert word in text


def test_a_table_of_seeds_takes_80_columns_at_most():
    (table,) = tables(seeds_of("fedavg-ds") + seeds_of("fedcore"))
    assert Console(width=500).measure(table).maximum <= 80


def test_a_long_name_is_folded_and_not_cut():
    name = "a_method_with_a_name_of_many_words"
    text = shown(seeds_of(name), 80)
    assert "…" not in text
    first_column = [line.strip().split(" ")[0] for line in text.splitlines() if line.strip()]
    assert name in "".join(first_column)


def test_a_name_with_brackets_is_no_markup():
    assert "mine[red]" in shown([result("mine[red]")])


def test_one_round_is_no_rounds():
    assert "1 round," in shown([result(rounds=1)])
    assert counted(1000, "round") == "1,000 rounds"


def faults(runs):
    return [text for text in remarks(runs) if not text.startswith("At ")]


def test_what_was_left_out_is_told_by_strategy_and_level():
    runs = [result(seed=s, rejected=n) for s, n in enumerate((10, 5))]
    runs += [result("fedavg", rejected=0), result("mine", 10.0, rejected=1)]
    first, second = faults(runs)
    assert first.startswith("FedCore at 30 % stragglers left out 15 answers that held NaN or infin")
    assert second.startswith("mine at 10 % stragglers left out 1 answer that held NaN or infinity")


def test_plain_draws_in_place_of_coresets_are_told():
    (many,) = faults([result(seed=s, fell_back=n) for s, n in enumerate((1000, 5, 0))])
    assert many.startswith("FedCore at 30 % stragglers took plain draws in place of 1,005 coresets")
    (one,) = faults([result("mine", fell_back=1)])
    assert one.startswith("mine at 30 % stragglers took plain draws in place of 1 coreset,")


def found(**accuracies):
    """The sentence under a table of strategies with (accuracies of seeds, mean round)."""
    runs = [
        result(
            strategy.replace("_", "-"),
            seed=seed,
            final_test_accuracy=accuracy,
            mean_round_time=time,
            max_round_time=time,
            deadline_miss_share=float(time > 1),
        )
        for strategy, (values, time) in accuracies.items()
        for seed, accuracy in enumerate(values)
    ]
    return list(remarks(runs))


def test_under_a_table_stands_what_it_shows():
    assert found(
        fedavg=([0.87, 0.88, 0.91], 14.66),
        fedavg_ds=([0.2, 0.4, 0.5], 0.5),
        fedprox=([0.58, 0.689, 0.9], 0.9),
        fedcore=([0.892, 0.88, 0.9], 1.0),
    ) == [
        "At 30 % stragglers, every round on time: FedCore 89.2 %, FedProx 68.9 %, FedAvg-DS "
        "40.0 %; FedCore is 20.3 points ahead of FedProx; late: FedAvg 88.0 %, in rounds of "
        "14.7 deadlines."
    ]


def test_those_within_a_point_are_called_level():
    assert found(fedprox=([0.885], 0.9), fedcore=([0.893], 1.0)) == [
        "At 30 % stragglers, every round on time: FedCore 89.3 %, FedProx 88.5 %; FedCore is level "
        "with FedProx."
    ]


def test_one_that_is_alone_or_late_or_not_measured():
    assert found(fedcore=([0.893], 1.0)) == [
        "At 30 % stragglers, every round on time: FedCore 89.3 %."
    ]
    assert found(fedavg=([0.893], 1.01)) == [
        "At 30 % stragglers, late: FedAvg 89.3 %, in rounds of 1.0 deadlines."
    ]
    assert found(fedcore=([None], 1.0)) == []


def costly(strategy="fedcore", seed=0, seconds=(1234.0, 56_789.0, None), **values):
    times = [
        {"target": target, "seconds": time}
        for target, time in zip((0.803, 0.848, 0.883), seconds, strict=True)
    ]
    cost = {
        "deadline_seconds": 10.0,
        "clients": 30,
        "slow_clients": 9,
        "slow_accuracy": 0.456,
        "worst_accuracy": 0.123,
        "participation_fairness": 0.26,
        "client_seconds": 4.45e6,
        "wasted_client_seconds": 0.0,
        "bytes_down": 617_000,
        "bytes_up": 999_600,
        "mean_staleness": None,
        "largest_staleness": None,
        "time_to_accuracy": times,
    }
    return result(strategy, seed=seed, **{**cost, **values})


def test_what_it_cost_and_whom_it_served():
    text = shown([costly("fedavg-ds"), costly("fedcore")], make=cost_tables)
    assert "b, 30 % stragglers: what it cost, and whom it served" in text
    for word in ("80.3 %", "1.23k", "56.8k", "reached", "45.6 %", "12.3 %", "0.26", "4.45M"):
        assert word in text
    for word in ("617k", "1M", "Slow (9 of 30 clients: E epochs take them past the deadline)"):
        assert word in text
    assert "Stale" not in text
    assert "…" not in text


def test_slow_clients_are_the_median_of_the_seeds():
    runs = [costly(seed=seed, slow_clients=count) for seed, count in enumerate((8, 1100, 9))]
    assert "Slow (9 of 30 clients:" in shown(runs, make=cost_tables)


def test_seeds_are_medians_and_one_that_does_not_reach_a_target_is_endless():
    def reached(*times):
        runs = [costly(seed=s, seconds=(time, time, time)) for s, time in enumerate(times)]
        (row,) = [line for line in shown(runs, make=cost_tables).split("\n") if "FedCore" in line]
        return row.split()[1]

    assert reached(100.0, 300.0, 200.0) == "200"
    assert reached(100.0, 300.0, None) == "300"
    assert reached(100.0, None, None) == "1"  # of 3 reached
    assert reached(None, None, None) == "not"
    some = shown([costly(seed=s, seconds=(t,) * 3) for s, t in enumerate((1.0, None, 2.0))],
                 make=cost_tables)  # fmt: skip
    assert "2 of 3" in some


def test_what_was_lost_and_how_stale_answers_were():
    stale = {"mean_staleness": 2.25, "largest_staleness": 14, "wasted_client_seconds": 4.45e5}
    text = shown([costly("fedavg-ds", **stale), costly("fedcore")], make=cost_tables)
    for word in ("(10 %)", "Stale,", "2.25", "14"):
        assert word in text
    assert "…" not in text


@pytest.mark.parametrize("stale", [None, 14])
def test_the_second_table_takes_80_columns_at_most(stale):
    seeds = enumerate(((100.0,) * 3, (None,) * 3, (99.9e6,) * 3))
    wide = {"wasted_client_seconds": 4.45e6, "largest_staleness": stale, "mean_staleness": stale}
    wide |= {"client_seconds": 4.45e6, "slow_accuracy": 1.0, "worst_accuracy": 1.0}
    (table,) = cost_tables([costly("fedavg-ds", s, seconds, **wide) for s, seconds in seeds])
    assert Console(width=500).measure(table).maximum <= 80


def test_long_numbers_are_three_digits():
    numbers = (0, 0.05, 950, 999.7, 12_345, 4_560_000, 7.8e9, 1.2e13)
    expected = ["0", "0.05", "950", "1k", "12.3k", "4.56M", "7.8G", "12T"]
    assert [short(number) for number in numbers] == expected


def test_many_targets_are_more_than_one_table():
    times = [{"target": n / 20, "seconds": 1.0} for n in range(1, 16)]
    found = list(cost_tables([costly(time_to_accuracy=times)]))
    assert [len(table.columns) for table in found] == [7, 7, 7, 3]
    assert all(Console(width=500).measure(table).maximum <= 80 for table in found)


def test_results_of_an_earlier_version_have_no_second_table():
    assert list(cost_tables([result()])) == []


def test_runs_of_different_lengths_say_so():
    assert "b, 30 % stragglers, 12 to 80 rounds, seed 0" in shown(
        [result("fedavg"), result("fedcore", rounds=80)]
    )


def test_step_sizes_are_told_with_their_grid_and_its_edges():
    def choice(strategy, stragglers, rate, edge):
        found = {"strategy": strategy, "stragglers": stragglers, "learning_rate": rate}
        return {**found, "edge": edge, "tried": [[0.01, 0.5], [0.03, 0.6], [0.1, 0.7]]}

    chosen = [choice("fedavg", 30.0, 0.1, "largest"), choice("fedcore", 30.0, 0.03, None)]
    assert list(step_size_remarks(chosen)) == [
        "Step sizes at 30 % stragglers, chosen among 0.01, 0.03, 0.1 by the final accuracy on half "
        "of the held-out data; the tables are of the other half: FedAvg 0.1 (the largest tried), "
        "FedCore 0.03."
    ]
    assert len(list(step_size_remarks([*chosen, choice("fedavg", 10.0, 0.1, None)]))) == 2
    assert list(step_size_remarks([])) == []
