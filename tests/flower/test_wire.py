"""Orders and reports arrive as they were sent; everything else is refused in a sentence."""

import json
from dataclasses import replace

import pytest

from fedcore.flower.wire import (
    EXAMPLES,
    BadMessage,
    Order,
    Report,
    order_text,
    read_order,
    read_report,
    report_metrics,
)
from fedcore.types import Assignment, CoresetSpec, LocalPlan, Path, Phase, Weighting

PLAN = LocalPlan(
    (
        Phase(1),
        Phase(
            3, CoresetSpec(7, "kmedoids", "last-layer-input", Weighting.SCALED, 0.5, (("a", 2),))
        ),
    ),
    Path.CORESET,
    prox_mu=0.1,
    step_scale=2.0,
)
ORDER = Order(Assignment(3, PLAN, base_version=5, seed=9, repeat=1), 20.0, 0.7, ticket=12)
REPORT = Report(12, 5, steps=40, work=320, training_seconds=1.5, age=0.1, handler_seconds=2.0)


def test_an_order_arrives_as_it_was_sent() -> None:
    assert read_order(order_text(ORDER)) == ORDER


def test_the_way_back_to_a_node_whose_clock_is_ahead_is_below_zero() -> None:
    ahead = replace(ORDER, back=-3.5)
    assert read_order(order_text(ahead)) == ahead


def test_a_report_arrives_as_it_was_sent() -> None:
    assert read_report(report_metrics(REPORT, 80)) == (REPORT, 80)


@pytest.mark.parametrize("selector", ["./own.py", "/tmp/x.py", "nothing"])
def test_a_server_cannot_choose_code(selector: str) -> None:
    told = json.loads(order_text(ORDER))
    told["plan"]["phases"][1]["coreset"]["selector"] = selector
    with pytest.raises(BadMessage, match="selector"):
        read_order(json.dumps(told))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", None, True, [1], 2**60])
@pytest.mark.parametrize("name", ["steps", "training-seconds", EXAMPLES])
def test_numbers_that_cannot_be_are_refused(name: str, value: object) -> None:
    with pytest.raises(BadMessage, match=name):
        read_report({**report_metrics(REPORT, 80), name: value})


@pytest.mark.parametrize("name", ["steps", "work", EXAMPLES])
def test_counts_below_zero_are_refused(name: str) -> None:
    with pytest.raises(BadMessage, match=name):
        read_report({**report_metrics(REPORT, 80), name: -1})
