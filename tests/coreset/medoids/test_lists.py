import numpy as np
from plain_medoids import rows_of

from fedcore.coreset.medoids.kernels import add_extras, who_lists
from fedcore.coreset.medoids.layout import build_lists, layout_of
from fedcore.coreset.medoids.moves import EXTRAS
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
    lists, chosen = lists_on_a_line(), np.ones(20, np.bool_)
    inside = lists.points[0, 3]
    found = np.array([[inside, 10, 15]], np.int32)
    distances = np.array([[lists.radius[0], 1e3, 2e3]], np.float32)
    add_extras(lists, chosen, np.array([0]), found, distances, True)
    assert lists.points[0, : lists.size[0]].tolist()[3:] == [inside, 10, 15]
    assert lists.reach[0] == 2e3
    add_extras(lists, chosen, np.array([0]), found[:, 2:], distances[:, 2:], True)
    assert lists.points[0, : lists.size[0]].tolist()[4:] == [15]


def test_new_medoids_join_those_that_still_are():
    lists, chosen = lists_on_a_line(), np.ones(20, np.bool_)
    first = np.array([[10, 12, 15]], np.int32)
    add_extras(lists, chosen, np.array([0]), first, np.array([[1e3, 2e3, 3e3]], np.float32), True)
    chosen[12] = False
    new = np.array([[11, 18, -1]], np.int32)
    add_extras(lists, chosen, np.array([0]), new, np.array([[1.5e3, 4e3, 0]], np.float32), False)
    assert lists.points[0, : lists.size[0]].tolist()[4:] == [10, 11, 15, 18]
    assert lists.reach[0] == 3e3


def test_a_full_list_forgets_its_last_and_says_so():
    lists, chosen = lists_on_a_line(count=60), np.ones(60, np.bool_)
    for begin in (20, 28, 36):
        found = np.arange(begin, begin + 8, dtype=np.int32)[None]
        distances = found.astype(np.float32) * 100
        add_extras(lists, chosen, np.array([0]), found, distances, begin == 20)
    assert lists.size[0] == lists.points.shape[1] == 4 + EXTRAS
    assert len(set(lists.points[0].tolist())) == 4 + EXTRAS
    assert lists.reach[0] <= lists.distances[0, -1]
