import numpy as np
import pytest
import torch

from fedcore.coreset.medoids import together
from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.tensor import points_of
from fedcore.coreset.metric import Euclidean

POINTS = points_of(
    Euclidean(np.random.default_rng(0).normal(size=(300, 3))),
    torch.from_numpy(np.random.default_rng(1).integers(1, 4, 300)),
    None,
)


def start(k=60, length=30):
    chosen = torch.zeros(300, dtype=torch.bool)
    chosen[:k] = True
    lists = together._lists(POINTS, torch.arange(len(POINTS)), length, Deadline())
    return together._repaired(POINTS, lists, chosen, Deadline()), chosen


def test_lists_begin_with_their_owner_and_are_sorted():
    lists = together._lists(POINTS, torch.arange(len(POINTS)), 30, Deadline())
    assert torch.equal(lists.numbers[:, 0], torch.arange(300))
    assert bool((lists.distances.diff(dim=1) >= 0).all())


def test_nobody_is_served_twice_by_the_same_medoid():
    graph, chosen = start()
    served = together._serve(POINTS, graph, chosen)
    assert bool((served.near != served.second).all())
    assert bool(chosen[served.near].all())
    assert bool((served.near_distance <= served.second_distance).all())


@pytest.mark.parametrize("k", [20, 60, 200])
def test_swaps_made_together_gain_the_sum_of_what_each_promises(k):
    graph, chosen = start(k)
    before = together._serve(POINTS, graph, chosen)
    into, out, gain = together._step(POINTS, graph, chosen, before)
    assert len(into) >= 1
    assert len(set(out.tolist())) == len(out)
    chosen[out], chosen[into] = False, True
    assert int(chosen.sum()) == k
    after = together._serve(POINTS, graph, chosen)
    assert before.total - after.total >= gain * (1 - 1e-6)


def test_group_sums_do_not_depend_on_the_order():
    values, groups = torch.rand(1000, dtype=torch.float64), torch.arange(1000) % 7
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(0))
    one = together._group_sums(values, groups, 7, 2.0**40)
    two = together._group_sums(values[order], groups[order], 7, 2.0**40)
    assert torch.equal(one, two)


def test_lists_of_candidates_hold_those_behind_their_owner():
    tried = torch.arange(0, len(POINTS), 3)
    lists = together._lists(POINTS, tried, 10, Deadline())
    assert torch.equal(lists.numbers[:, 0], torch.arange(len(POINTS)))
    assert (lists.numbers[:, 1:] % 3 == 0).all()
    assert (lists.distances.diff(dim=1) >= 0).all()
