import numpy as np
import pytest
from plain_medoids import distance_matrix, rows_of

from fedcore.coreset.medoids.layout import build_lists, layout_of, nearest_among
from fedcore.coreset.medoids.problem import Problem, TimeUp


def problem(metric, labels=None):
    count = len(metric)
    weights = np.arange(1, count + 1, dtype=np.float32)
    return Problem(rows_of(metric), weights, 2, np.arange(2), labels=labels)


def test_far_is_further_than_anything(family):
    metric = family(200)
    assert layout_of(problem(metric)).far >= distance_matrix(rows_of(metric)).max()


def test_labels_stand_one_after_the_other(late):
    labels = np.arange(300) % 3
    layout = layout_of(problem(late(300), labels))
    assert layout.segments == ((0, 100), (100, 200), (200, 300))
    for label, (begin, end) in enumerate(layout.segments):
        assert (labels[layout.order[begin:end]] == label).all()
    np.testing.assert_array_equal(layout.weights, layout.order + 1)


def test_lists_stay_inside_their_label(late):
    layout = layout_of(problem(late(300), np.arange(300) % 3))
    lists = build_lists(layout, 20, None)
    for begin, end in layout.segments:
        inside = lists.points[begin:end, :20]
        assert ((inside >= begin) & (inside < end)).all()


def test_lists_among_some_places_hold_the_nearest_of_those(family):
    layout = layout_of(problem(family(200)))
    among = np.arange(len(layout)) % 3 == 0
    lists = build_lists(layout, 12, None, among=among)
    distances = distance_matrix(layout.rows)
    for point in range(len(layout)):
        others = np.flatnonzero(among & (np.arange(len(layout)) != point))
        want = np.sort(distances[point, others])[:11]
        assert lists.points[point, 0] == point
        assert among[lists.points[point, 1:12]].all()
        np.testing.assert_allclose(lists.distances[point, 1:12], want, rtol=1e-6)
    everybody = build_lists(layout, len(layout), None, among=among)
    assert (everybody.radius >= distances.max()).all()


def test_places_mark_where_points_stand(late):
    layout = layout_of(problem(late(100)))
    assert layout.order[layout.places(np.array([3, 50]))].tolist() in ([3, 50], [50, 3])


def test_a_label_without_members_finds_nobody(late):
    layout = layout_of(problem(late(300), np.arange(300) % 3))
    members = np.arange(300) < 100
    points, _ = nearest_among(layout, members, np.arange(300), 2, None)
    assert (points[:100] >= 0).all()
    assert (points[100:] == -1).all()


def test_no_time_no_lists(late):
    layout = layout_of(problem(late(300)))
    with pytest.raises(TimeUp):
        build_lists(layout, 20, lambda: True)
