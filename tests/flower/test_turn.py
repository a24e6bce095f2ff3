"""Seconds that are left, whatever the clocks say, and what the server hears of them."""

from dataclasses import replace

import pytest

pytest.importorskip("flwr")

from tests.flower.client_side import FakeTime, context, coreset_plan, message, order_for

from fedcore.flower.turn import Turn, order_of, seconds_for
from fedcore.flower.wire import BadMessage, read_report


@pytest.mark.parametrize(
    ("age", "back", "left"),
    [
        (2.0, 1.0, 17.0),
        (-60.0, 1.0, 19.0),  # a clock a minute behind, first contact: the way back alone counts
        (-58.0, 61.0, 17.0),  # and once the server has learned of it
        (-58.0, 57.9, 19.9),  # ... a little too little of it
        (4.5, 0.0, 15.5),  # ahead
        (25.0, 1.0, -6.0),  # an order that waited too long
    ],
)
def test_seconds_left(age, back, left):
    order = order_for(coreset_plan(5), deadline=20.0, back=back)
    assert seconds_for(order, age) == pytest.approx(left)


@pytest.mark.parametrize("skew", [-60.0, 0.0, 4.0])
def test_a_constant_error_of_the_clock_cancels_once_the_way_back_is_learned(skew):
    """Trip = age + handler + way back, all by the server's clock."""
    true_age, handler, way = 2.0, 10.0, 1.0
    time = FakeTime()
    time.skew, time.now = skew, true_age
    order = order_for(coreset_plan(5), deadline=30.0, back=0.0)
    turn = Turn(message(order), context(), time.clock())
    time.now += handler
    turn.examples = 80
    report, examples = read_report(turn.report())
    assert (report.handler_seconds, examples) == (handler, 80)
    learned = true_age + handler + way - report.age - report.handler_seconds
    left = seconds_for(order_for(coreset_plan(5), deadline=30.0, back=learned), true_age + skew)
    assert left == pytest.approx(30.0 - true_age - way)


def test_a_report_names_its_order():
    turn = Turn(message(order_for(coreset_plan(5))), context())
    report, _ = read_report(turn.report())
    assert (report.ticket, report.base_version) == (12, 5)


def test_no_step_is_begun_that_would_end_too_late():
    time = FakeTime()
    turn = Turn(message(order_for(coreset_plan(5), deadline=10.0)), context(), time.clock())
    taken = 0
    for seconds in (1.0, 3.0, 1.0, 1.0, 1.0, 1.0):
        if not turn.go_on():
            break
        turn.under_way = 8
        time.now += seconds
        taken += 1
    assert taken == 5  # then 7 seconds are gone: a sixth might take 3 again, and 9.8 are there
    assert turn.said.cut_short == 1


def test_a_message_without_an_order_is_refused():
    with pytest.raises(BadMessage, match="FedCore"):
        order_of(message(None))


def test_a_first_step_like_no_other_counts_until_there_are_others():
    time = FakeTime()
    turn = Turn(message(order_for(coreset_plan(5), deadline=30.0)), context(), time.clock())
    for seconds in (8.0, *[1.0] * 40):
        if not turn.go_on():
            break
        turn.under_way = 8
        time.now += seconds
    # 8 + 21 = 29 of 29.4; were the first the longest for ever, it would end at 22.
    assert (turn.said.steps, time.now) == (22, 29.0)


def test_on_a_virtual_clock_time_begins_with_the_turn():
    time = FakeTime()
    time.now = 500.0  # that the order waited
    order = replace(order_for(coreset_plan(5), deadline=10.0), virtual=1)
    turn = Turn(message(order), context(), time.clock())
    assert turn.said.age == 0
    assert turn.go_on()
    time.now += 9.9
    assert not turn.go_on()
    assert read_report(turn.report())[0].handler_seconds == pytest.approx(9.9)
