"""Neighbour lists against the distance matrix."""

import numpy as np
import pytest
import torch

from plain_medoids import distance_matrix, rows_of
from fedcore.coreset.medoids.exact import assign_all, clusters_of, sweep
from fedcore.coreset.medoids.hurry import Plan
from fedcore.coreset.medoids.layout import build_lists, layout_of
from fedcore.coreset.medoids.neighbours import EVERY
from fedcore.coreset.medoids.problem import Problem
from fedcore.coreset.medoids.solve import solve
from fedcore.coreset.medoids.sparse import Repairs, improve, list_length, solve_sparse
from fedcore.coreset.medoids.state import new_state, settle
from fedcore.coreset.metric import Euclidean


def dense_swaps(points, medoids):
    distances = distance_matrix(rows_of(Euclidean(points)))
    state = clusters_of(len(points), medoids)
    weights = np.ones(len(points), np.float32)
    assign_all(distances, state, weights)
    return sweep(distances, state, weights, 0, 0, 1 << 40)[2]


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


def test_few_medoids_are_left_to_the_exact_path():
    points = np.random.default_rng(0).normal(size=(300, 2))
    assert solve(points, 3, path="sparse").path == "exact"


@pytest.mark.parametrize("seconds", [0.0, 1e-3, 10.0])
def test_any_budget_gives_a_complete_answer(late, seconds):
    rows = rows_of(late(1500))
    problem = Problem(rows, np.ones(1500, np.float32), 300, np.arange(300))
    answer = solve_sparse(problem, Deadline.after(seconds))
    assert len(np.unique(answer.medoids)) == 300
    distances = distance_matrix(rows)[:, answer.medoids]
    np.testing.assert_allclose(
        distances[np.arange(1500), answer.nearest], distances.min(axis=1), rtol=1e-6
    )
    assert answer.finished == (seconds == 10.0)


def test_more_time_is_never_worse(late):
    metric = late(3000)
    none, some = (solve(metric, 600, path="sparse", seconds=s).objective for s in (0.0, 5.0))
    assert some < none


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
    moved = Euclidean(metric.points * (1 + 0.02 * torch.sin(torch.arange(1500.0)))[:, None])
    warm = solve(moved, 300, path="sparse", start=cold.indices)
    assert warm.swaps < solve(moved, 300, path="sparse").swaps
    assert warm.objective <= 1.01 * solve(moved, 300, path="exact").objective


def test_a_cluster_larger_than_lists_gets_its_best_member(late):
    metric = late(2000)
    problem = Problem(rows_of(metric), np.ones(2000, np.float32), 60, np.arange(60))
    layout = layout_of(problem)
    lists = build_lists(layout, 24, None)
    state = new_state(layout.places(problem.start), layout.weights, layout.far)
    settle(lists, state)
    repairs = Repairs(layout, lists, state, Plan(EVERY, Deadline(), 0.0, 0.0))
    assert repairs.run()
    before = settle(lists, state)
    assert repairs.centre() > 0
    assert state.chosen.sum() == 60
    assert repairs.run()
    assert settle(lists, state) < before


def test_stirring_keeps_the_number_of_medoids_and_is_taken_back_where_it_is_no_gain(late):
    metric = late(3000)
    problem = Problem(
        rows_of(metric), np.ones(3000, np.float32), 600, np.arange(600), False, None, 1
    )
    layout = layout_of(problem)
    lists = build_lists(layout, 64, None)
    state = new_state(layout.places(problem.start), layout.weights, layout.far)
    settle(lists, state)
    repairs = Repairs(layout, lists, state, Plan(EVERY, Deadline(), 0.0, 0.0))
    improve(lists, state, repairs)
    first = settle(lists, state)
    improve(lists, state, repairs)
    assert state.chosen.sum() == 600
    assert settle(lists, state) <= first
