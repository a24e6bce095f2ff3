import numpy as np
from plain_medoids import rows_of

from fedcore.coreset.medoids.layout import build_lists, layout_of
from fedcore.coreset.medoids.moves import EXTRAS, add_extras, who_lists
from fedcore.coreset.medoids.problem import Problem
from fedcore.coreset.metric import Euclidean


def lists_on_a_line(count=20, length=4):
    rows = rows_of(Euclidean(np.arange(count)[:, None] ** 1.5))
    problem = Problem(rows, np.ones(count, np.float32), 2, np.arange(2))
    return build_lists(layout_of(problem), length, None)


def test_a_list_begins_with_its_owner_and_is_sorted():
    lists = lists_on_a_line()
    assert lists.points[:, 0].tolist() == list(range(20))
    assert (np.diff(lists.distances[:, :4], axis=1) >= 0).all()
    np.testing.assert_array_equal(lists.radius, lists.distances[:, 3])


def test_a_list_of_everybody_has_no_border():
    lists = lists_on_a_line(count=5, length=50)
    assert (lists.size == 5).all()
    assert (lists.radius > lists.distances[:, :5].max()).all()


def test_reversed_lists_name_exactly_those_who_list_a_point():
    lists = lists_on_a_line()
    offsets, points, _ = who_lists(lists, np.zeros_like(lists.exact), lists.exact)
    for point in range(20):
        got = points[offsets[point] : offsets[point + 1]]
        want = [other for other in range(20) if point in lists.points[other, :4]]
        assert got.tolist() == want


def test_extras_stand_behind_the_exact_part_and_repeat_nothing():
    lists = lists_on_a_line()
    inside = lists.points[0, 3]
    found = np.array([[inside, 10, 15]], np.int32)
    distances = np.array([[lists.radius[0], 1e3, 2e3]], np.float32)
    add_extras(lists, np.array([0]), found, distances)
    assert lists.points[0, : lists.size[0]].tolist()[3:] == [inside, 10, 15]
    add_extras(lists, np.array([0]), found[:, 2:], distances[:, 2:])
    assert lists.points[0, : lists.size[0]].tolist()[4:] == [15]


def test_no_medoids_are_no_extras_and_a_list_has_room_for_all_that_are_asked_for():
    lists = lists_on_a_line(count=60)
    found = np.arange(20, 20 + EXTRAS, dtype=np.int32)[None]
    add_extras(lists, np.array([0]), found, found.astype(np.float32) * 100)
    assert lists.points[0].tolist()[4:] == found[0].tolist()
    assert lists.size[0] == lists.points.shape[1] == 4 + EXTRAS
    add_extras(lists, np.array([0]), np.full((1, 3), -1, np.int32), np.zeros((1, 3), np.float32))
    assert lists.size[0] == 4
