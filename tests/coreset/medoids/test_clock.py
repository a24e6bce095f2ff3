from fedcore.coreset.medoids.clock import Deadline


def test_without_a_deadline_there_is_always_time():
    assert not Deadline.after(None).over()
    assert Deadline.after(None).left() == float("inf")
    assert list(Deadline().pieces(5, 2)) == [(0, 2), (2, 4), (4, 5)]


def test_a_spent_budget_is_over_and_stops_the_pieces():
    spent = Deadline.after(0.0)
    assert spent.over()
    assert spent.left() == 0.0
    assert list(spent.pieces(5, 2)) == []
