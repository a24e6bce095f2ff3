"""Rounds over a grid in one process: they end on time, whatever nodes do."""

import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import ArrayRecord
from tests.flower.grid import InProcessGrid, Time, adding

from fedcore.flower import FedCore

START = {"w": torch.tensor([[0.0, 1.0]]), "b": torch.tensor([0.5])}


def run(nodes, rounds=2, *, config=None, evaluate_fn=None, grid=None, **options):
    time = grid.time if grid else Time()
    grid = grid or InProcessGrid(time, nodes)
    options = {
        "deadline": 20.0,
        "grace": 3.0,
        "local_epochs": 3,
        "fraction_evaluate": 0.0,
    } | options
    strategy = FedCore(**options)
    strategy.monotonic, strategy.sleep = time.monotonic, time.sleep
    result = strategy.start(
        grid, ArrayRecord(START), rounds, train_config=config, evaluate_fn=evaluate_fn
    )
    return result, grid


def weights(result):
    return torch.from_numpy(result.arrays["w"].numpy())


def test_a_round_is_the_plain_mean_of_all_answers():
    result, _ = run({7: adding(1.0), 8: adding(3.0, samples=90)}, 2)
    assert torch.equal(weights(result), START["w"] + 4.0)
    assert list(result.arrays) == ["w", "b"]


def test_what_is_late_is_thrown_away_and_its_node_asked_again_when_it_has_answered():
    late = adding(100.0, trip=26.0, seconds=24.0)
    result, grid = run({7: adding(1.0), 8: late}, 4)
    assert torch.equal(weights(result), START["w"] + 4.0)
    # Round 1 ends at 23 s; its late answer comes at 26 s, in round 3, so it takes part in round 4.
    assert [grid.asked(n) for n in (1, 2, 3, 4)] == [[7, 8], [7], [7], [7, 8]]
