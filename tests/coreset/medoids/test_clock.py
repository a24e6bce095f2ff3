import time

from fedcore.coreset.medoids.clock import Deadline, Pace


def test_without_a_deadline_there_is_always_time():
    assert not Deadline.after(None).over()
    assert Deadline.after(None).left() == float("inf")
    assert list(Deadline().pieces(5, 2)) == [(0, 2), (2, 4), (4, 5)]


def test_a_spent_budget_is_over_and_stops_the_pieces():
    spent = Deadline.after(0.0)
    assert spent.over()
    assert spent.left() == 0.0
    assert list(spent.pieces(5, 2)) == []


def test_a_step_that_takes_longer_than_what_is_left_is_not_begun():
    pace = Pace(Deadline.after(0.05))
    assert pace.allows_another()
    time.sleep(0.03)
    assert not pace.allows_another()
    unhurried = Pace(Deadline())
    assert unhurried.allows_another()
    assert unhurried.allows_another()
