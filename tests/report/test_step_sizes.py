import pytest

from fedcore.records import Ending, RoundRecord, RunKey
from fedcore.report.summary import choices, chosen_runs


def runs_of(accuracies):
    """Runs of one round by (strategy, stragglers, rate, seed), with these accuracies to choose."""
    runs = {}
    for (strategy, stragglers, rate, seed), accuracy in accuracies.items():
        ending = Ending(1.0, 1, 1, 0, None, 0.0, accuracy)
        record = RoundRecord(1, 1.0, 1.0, (), 0, None, None, None, 0.5, 0.0, ending=ending)
        runs[RunKey("b", strategy, stragglers, seed, rate)] = [record]
    return runs


def told(choice):
    return choice["strategy"], choice["learning_rate"], choice["edge"]


GRID = runs_of(
    {
        **{("fedavg", 30.0, 0.01, s): a for s, a in enumerate((0.5, 0.7))},
        **{("fedavg", 30.0, 0.1, s): a for s, a in enumerate((0.9, 0.2))},  # best in one seed
        **{("fedcore", 30.0, 0.01, s): a for s, a in enumerate((0.1, 0.2))},
        **{("fedcore", 30.0, 0.1, s): a for s, a in enumerate((0.3, 0.2))},
    }
)


def test_one_for_each_method_by_the_mean_over_seeds():
    first, second = choices(GRID)
    assert told(first) == ("fedavg", 0.01, "smallest")
    assert first["tried"] == [[0.01, pytest.approx(0.6)], [0.1, pytest.approx(0.55)]]
    assert told(second) == ("fedcore", 0.1, "largest")
    kept = [(run.strategy, run.learning_rate, run.seed) for run in chosen_runs(GRID)]
    assert kept == [
        ("fedavg", 0.01, 0),
        ("fedavg", 0.01, 1),
        ("fedcore", 0.1, 0),
        ("fedcore", 0.1, 1),
    ]


def test_one_inside_the_grid_lies_at_no_edge_and_of_equals_the_smallest_is_taken():
    rates = {0.1: 0.5, 0.01: 0.2, 0.03: 0.5}
    (found,) = choices(runs_of({("fedavg", 30.0, rate, 0): a for rate, a in rates.items()}))
    assert told(found) == ("fedavg", 0.03, None)


def test_levels_have_step_sizes_of_their_own():
    best = {(10.0, 0.01): 0.9, (10.0, 0.1): 0.5, (30.0, 0.01): 0.5, (30.0, 0.1): 0.9}
    found = choices(runs_of({("fedavg", *key, 0): a for key, a in best.items()}))
    assert [(c["stragglers"], c["learning_rate"]) for c in found] == [(10.0, 0.01), (30.0, 0.1)]


def test_without_a_grid_every_run_counts():
    runs = runs_of({("fedavg", 30.0, None, 0): None, ("fedcore", 30.0, None, 0): None})
    assert choices(runs) == []
    assert chosen_runs(runs) == runs
