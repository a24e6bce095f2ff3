import numpy as np

from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.geometry import rows_of
from fedcore.coreset.medoids.layout import build_lists, layout_of
from fedcore.coreset.medoids.lists import add_extras, reversed_lists
from fedcore.coreset.medoids.metric import Euclidean
from fedcore.coreset.medoids.solution import Problem


def lists_on_a_line(count=20, length=4):
    rows = rows_of(Euclidean(np.arange(count)[:, None] ** 1.5))
    problem = Problem(rows, np.ones(count, np.float32), 2, np.arange(2), False, None, 1)
    return build_lists(layout_of(problem), length, Deadline())


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
    reverse = reversed_lists(lists)
    for point in range(20):
        got = reverse.points[reverse.offsets[point] : reverse.offsets[point + 1]]
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
