"""Costs inside clusters against the distance matrix."""

import numpy as np

from fedcore.coreset.medoids import centre
from plain_medoids import distance_matrix, rows_of
from fedcore.coreset.medoids.layout import layout_of
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
    order = centre.ranked(layout, np.arange(len(layout)), near, away, None)
    width = layout.rows.left.shape[1] + layout.rows.right.shape[1]
    most = min(centre.TRIED, centre.TRIED * centre.WIDE // width)  # fewer where vectors are long
    assert sorted(order.places) == list(range(len(layout)))
    for begin, end in zip(order.begins[:-1], order.begins[1:], strict=True):
        members = order.places[begin:end]
        assert len(set(near[members])) == 1
        costs = distances[np.ix_(members, members)].astype(np.float64) @ layout.weights[members]
        found = order.costs[begin:end]
        tried = min(len(members), most)
        np.testing.assert_allclose(found[:tried], costs[:tried], rtol=1e-5)
        assert (np.diff(found[:tried]) >= 0).all()
        assert np.isinf(found[tried:]).all()


def test_of_a_large_cluster_the_members_nearest_to_the_medoid_are_tried(late):
    layout, _, near, away = laid_out(late(400), 2)
    order = centre.ranked(layout, np.arange(len(layout)), near, away, None)
    for begin, end in zip(order.begins[:-1], order.begins[1:], strict=True):
        tried = np.isfinite(order.costs[begin:end])
        assert tried.sum() == min(end - begin, centre.TRIED)
        if not tried.all():
            members = order.places[begin:end]
            assert away[members[tried]].max() <= away[members[~tried]].min()
    assert np.diff(order.begins).max() > centre.TRIED


def test_without_time_medoids_stay(late):
    layout, _, near, away = laid_out(late(300))
    order = centre.ranked(layout, np.arange(len(layout)), near, away, Deadline.after(0.0))
    first = order.places[order.begins[:-1]]
    assert sorted(first) == sorted(set(near.tolist()))


def test_only_clusters_larger_than_asked_for_are_centred(late):
    layout, distances, near, away = laid_out(late(600), 30)
    chosen = layout.places(np.arange(30))
    sizes = np.bincount(near, minlength=600)
    limit = int(np.sort(sizes)[-5])
    before = distances[:, chosen].min(axis=1) @ layout.weights
    moved = centre.centre_large(layout, chosen, near, away, limit, None)
    assert 0 < moved <= (sizes > limit).sum()
    assert chosen.sum() == 30
    assert set(np.flatnonzero((sizes > 0) & (sizes <= limit))) <= set(np.flatnonzero(chosen))
    assert distances[:, chosen].min(axis=1) @ layout.weights < before
    assert centre.centre_large(layout, chosen, near, away, 600, None) == 0
