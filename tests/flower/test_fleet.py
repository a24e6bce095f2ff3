"""What the server learns of nodes, by numbers that can be done by hand."""

import pytest

pytest.importorskip("flwr")

from flwr.proto.node_pb2 import NodeInfo

from fedcore.flower.fleet import UNMEASURED, Fleet
from fedcore.flower.wire import Report

BYTES = 1000


def fleet(*nodes):
    known = Fleet(BYTES)
    known.meet([NodeInfo(node_id=node) for node in nodes])
    return known


def report(work=100, seconds=10.0, age=0.5, handler=10.5):
    return Report(1, 0, 10, work, seconds, age, handler)


def test_a_key_is_a_node_whatever_its_address():
    known = Fleet(BYTES)
    known.meet([NodeInfo(node_id=5, public_key=b"a"), NodeInfo(node_id=6, public_key=b"b")])
    before = {known.names[client]: client for client in known}
    again = Fleet(BYTES)
    again.restore(known.to_json())
    again.meet([NodeInfo(node_id=9, public_key=b"b")])
    assert list(again.online.values()) == [9]
    assert before[again.names[next(iter(again.online))]] == next(iter(again.online))
    assert len(again) == 2
    assert b"a" not in str(known.to_json()).encode().split()


def test_who_is_new_is_told_everything_and_counts_as_the_mean():
    known = fleet(1, 2, 3)
    known.learn(0, report(), 40, 12.0, True)
    known.learn(1, report(), 20, 12.0, True)
    assert known.sizes().counts.tolist() == [40, 20, 30]
    assert known[2].seconds(10**6, BYTES) < 0.01


def test_speed_is_of_training_and_overhead_the_rest():
    known = fleet(1)
    known.learn(0, report(work=100, seconds=10.0), 40, 12.0, True)
    assert known[0].capability == 10.0
    assert known[0].transfer_seconds(BYTES) == pytest.approx(1.0)  # half of a first trip's 2 s
    assert known.seen(2, 60.0).seconds(2) == pytest.approx([80 / 10 + 2.0])
    assert len(known.nodes[0].ways) == 1
    known.learn(0, report(work=100, seconds=20.0), 40, 26.0, True)
    assert known[0].capability == 7.5
    assert known[0].transfer_seconds(BYTES) == pytest.approx(4.0)
    assert known.seen(2, 60.0).seconds(2) == pytest.approx([80 / 7.5 + 4.0])
    assert known.nodes[0].way == pytest.approx(4.0)


def test_a_trip_that_was_not_seen_to_end_says_nothing_of_the_way():
    known = fleet(1)
    known.learn(0, report(work=100, seconds=10.0), 40, 500.0, False)
    assert known[0].capability == 10.0
    assert known[0].transfer_seconds(BYTES) == 0
    assert known.back(0, 20.0) == 2.0


@pytest.mark.parametrize("error", [0.0, 60.0, -4.0])
def test_the_way_back_is_mean_and_two_deviations_with_the_clocks_error(error):
    known = fleet(1)
    assert known.back(0, 20.0) == 2.0
    for trip in (12.0, 13.0, 14.0):  # 1, 2, 3 s back
        known.learn(0, report(age=0.5 - error), 40, trip, True)
    assert known.back(0, 20.0) == pytest.approx(2 + error + 2 * (2 / 3) ** 0.5)


def test_ten_times_the_median_is_the_longest_update():
    known = fleet(1)
    for norm, longest in ((1.0, float("inf")), (3.0, float("inf")), (2.0, 20.0), (9.0, 25.0)):
        known.accept(0, norm, 1)
        assert known.longest(1) == longest
        assert known.longest(4) == 2 * longest
        assert known.longest(10**9) == known.longest(100)  # of whatever is said


def test_where_nobody_moves_everything_is_accepted():
    known = fleet(1)
    for _ in range(5):
        known.accept(0, 0.0, 1)
    assert known.longest(1) == float("inf")


def test_a_good_answer_ends_a_row_of_lies():
    known = fleet(1)
    for _ in range(4):
        known.refuse(0, 1)
        known.refuse(0, 1)
        known.accept(0, 1.0, 1)
    assert known.nodes[0].left_out_until == 0
    assert known.nodes[0].refused == 8
    for _ in range(3):
        known.refuse(0, 7)
    assert known.nodes[0].left_out_until == 13  # left out of the five from 8 on


def test_nobody_is_faster_than_who_was_not_measured():
    for seconds in (1e-30, 1e-320):
        known = fleet(1)
        known.learn(0, report(seconds=seconds), 40, 12.0, True)
        assert known[0].capability == UNMEASURED


@pytest.mark.parametrize("behind", [60.0, 8.0, -2.5])
def test_a_clock_that_was_set_is_believed_at_once(behind):
    """Also by less than the 12 s of a trip: all but two of these were training."""
    known = fleet(1)
    for age in (0.5 - behind, 0.5 - behind, 0.5 - behind, 0.5, 0.5):  # then right
        known.learn(0, report(age=age), 40, 12.0, True)
    assert known.back(0, 20.0) == pytest.approx(1.0)
