"""Neighbour lists against the distance matrix."""

import numpy as np
import pytest
import torch
from plain_medoids import distance_matrix, rows_of

from fedcore.coreset.medoids.exact import solve_exact
from fedcore.coreset.medoids.layout import build_lists, layout_of
from fedcore.coreset.medoids.moves import settle
from fedcore.coreset.medoids.problem import Problem
from fedcore.coreset.medoids.solve import solve
from fedcore.coreset.medoids.sparse import Best, Search, best_in_time, list_length, searched
from fedcore.coreset.metric import Euclidean


def dense_swaps(points, medoids):
    rows, weights = rows_of(Euclidean(points)), np.ones(len(points), np.float32)
    return solve_exact(Problem(rows, weights, len(medoids), medoids)).swaps


@pytest.mark.parametrize("share", [0.03, 0.05, 0.2, 0.5, 0.8, 0.999])
def test_never_one_percent_above_the_exact_path_on_any_family(family, share):
    metric = family(1000)
    k = max(1, int(share * len(metric)))
    exact = solve(metric, k, path="exact").objective
    assert solve(metric, k, path="sparse").objective <= 1.01 * exact + 1e-12


@pytest.mark.parametrize("share", [0.2, 0.4, 0.8])
def test_certified_everywhere_means_that_the_full_matrix_finds_no_swap(share):
    points = np.random.default_rng(3).normal(size=(3100, 2)).astype(np.float32)
    answer = solve(points, int(3100 * share), path="sparse")
    assert answer.path == "sparse"
    assert answer.certified == 1.0
    assert dense_swaps(points, answer.indices) == 0


def test_points_without_medoids_nearby_are_reported(late):
    answer = solve(late(3100), 620, path="sparse")
    assert 0.0 < answer.certified < 1.0


def test_lists_grow_as_medoids_become_rare():
    lengths = [list_length(10_000, k) for k in (250, 500, 2_000, 5_000, 8_000)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] <= 136
    assert lengths[-1] >= 16


@pytest.mark.parametrize("looks", [0, 1, 25, 30])
def test_whenever_the_time_is_up_everybody_has_the_nearest_medoid(late, looks):
    rows, clock = rows_of(late(1500)), iter([False] * looks)
    problem = Problem(rows, np.ones(1500, np.float32), 300, np.arange(300))
    answer = best_in_time(problem, lambda: next(clock, True), "sparse", searched)
    assert len(np.unique(answer.indices)) == 300
    distances = distance_matrix(rows)[:, answer.indices]
    np.testing.assert_array_equal(
        distances[np.arange(1500), answer.assignment], distances.min(axis=1)
    )
    assert not answer.finished


def test_labels_share_the_budget_by_need():
    rng = np.random.default_rng(0)
    wide, narrow = rng.normal(size=(600, 3)), rng.normal(size=(600, 3)) * 0.01
    labels = np.repeat([0, 1], 600)
    answer = solve(np.vstack((wide, narrow)), 200, labels=labels, path="sparse")
    assert np.array_equal(labels[answer.indices][answer.assignment], labels)
    assert (answer.indices < 600).sum() > 150
    exact = solve(np.vstack((wide, narrow)), 200, labels=labels, path="exact")
    assert answer.objective <= 1.01 * exact.objective


def test_a_warm_start_saves_swaps(late):
    metric = late(1500)
    cold = solve(metric, 300, path="sparse")
    moved = Euclidean(metric.factors[0] * (1 + 0.02 * torch.sin(torch.arange(1500.0)))[:, None])
    warm = solve(moved, 300, path="sparse", start=cold.indices)
    assert warm.swaps < solve(moved, 300, path="sparse").swaps
    assert warm.objective <= 1.01 * solve(moved, 300, path="exact").objective


def search_of(metric, k, length):
    count = len(metric)
    problem = Problem(rows_of(metric), np.ones(count, np.float32), k, np.arange(k))
    layout = layout_of(problem)
    start = layout.places(problem.start)
    return Search(layout, build_lists(layout, length, None), start, Best(start, np.inf, None))


def test_a_cluster_larger_than_lists_gets_its_best_member(late):
    search = search_of(late(2000), 60, 24)
    search.repair()
    before = settle(search.lists, search.state)
    assert search._centre_large() > 0
    assert search.state.chosen.sum() == 60
    search.repair()
    assert settle(search.lists, search.state) < before


def test_stirring_keeps_the_number_of_medoids_and_is_taken_back_where_it_is_no_gain(late):
    search = search_of(late(3000), 600, 64)
    search.improve()
    first = settle(search.lists, search.state)
    search.improve(stirred=True)
    assert search.state.chosen.sum() == 600
    assert settle(search.lists, search.state) <= first
