"""Costs inside clusters against the distance matrix."""

import numpy as np
import pytest
from plain_medoids import distance_matrix, rows_of

from fedcore.coreset.medoids.kernels import member_costs
from fedcore.coreset.medoids.layout import TRIED, WIDE, layout_of, leaves_of, ranked, take_rows
from fedcore.coreset.medoids.problem import Problem


def laid_out(metric, k=7):
    weights = np.random.default_rng(0).integers(1, 4, len(metric)).astype(np.float32)
    layout = layout_of(Problem(rows_of(metric), weights, k, np.arange(k)))
    distances = distance_matrix(layout.rows)
    medoids = np.flatnonzero(layout.places(np.arange(k)))
    near = medoids[distances[:, medoids].argmin(axis=1)].astype(np.int32)
    near[medoids] = medoids
    return layout, distances, near, distances[np.arange(len(layout)), near]


def test_a_member_costs_what_its_cluster_is_away_from_it(family):
    layout, distances, near, away = laid_out(family(300))
    order = ranked(layout, np.arange(len(layout)), near, away)
    width = layout.rows.left.shape[1] + layout.rows.right.shape[1]
    most = min(TRIED, TRIED * WIDE // width)  # fewer where vectors are long
    assert sorted(order.places) == list(range(len(layout)))
    total = 0.0
    for begin, end in zip(order.begins[:-1], order.begins[1:], strict=True):
        members = order.places[begin:end]
        assert len(set(near[members])) == 1
        costs = distances[np.ix_(members, members)].astype(np.float64) @ layout.weights[members]
        tried = min(len(members), most)
        assert (np.diff(costs[:tried]) >= -1e-4 * costs[0]).all()
        total += costs[:tried].min()
    assert order.total == pytest.approx(total, rel=1e-5)


def test_of_a_large_cluster_the_members_nearest_to_the_medoid_are_tried(late):
    layout, _, near, away = laid_out(late(400), 2)
    order = ranked(layout, np.arange(len(layout)), near, away)
    assert np.diff(order.begins).max() > TRIED
    for begin, end in zip(order.begins[:-1], order.begins[1:], strict=True):
        first, rest = np.split(order.places[begin:end], [TRIED])
        assert not len(rest) or away[first].max() <= away[rest].min()


def test_what_is_not_tried_has_no_cost(late):
    layout, distances, near, _ = laid_out(late(400), 2)
    places = np.lexsort((np.arange(400), near))
    begins = np.append(np.flatnonzero(np.diff(near[places], prepend=-1)), 400)
    rows, costs = take_rows(layout.rows, places), np.full(400, np.inf)
    member_costs(rows, leaves_of(rows), layout.weights[places], begins, 0, 5, costs)
    assert np.isfinite(costs).sum() == 10
    own = places[begins[0] : begins[1]]
    want = distances[np.ix_(own[:5], own)].astype(np.float64) @ layout.weights[own]
    np.testing.assert_allclose(costs[:5], want, rtol=1e-5)
