"""Orders and reports arrive as they were sent; everything else is refused in a sentence."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("flwr")
pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st

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
from fedcore.types import Assignment, CoresetSpec, LocalPlan, Phase, Way, Weighting

PLAN = LocalPlan(
    (
        Phase(1),
        Phase(
            3, CoresetSpec(7, "kmedoids", "last-layer-input", Weighting.SCALED, 0.5, (("a", 2),))
        ),
    ),
    Way.CORESET,
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
    told["assignment"]["plan"]["phases"][1]["coreset"]["selector"] = selector
    with pytest.raises(BadMessage, match="selector"):
        read_order(json.dumps(told))


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), "1", None, True, [1], 2**60, 10**400]
)
@pytest.mark.parametrize("name", ["steps", "training-seconds", EXAMPLES])
def test_numbers_that_cannot_be_are_refused(name: str, value: object) -> None:
    with pytest.raises(BadMessage, match=name):
        read_report({**report_metrics(REPORT, 80), name: value})


@pytest.mark.parametrize("name", ["steps", "work", EXAMPLES])
def test_counts_below_zero_are_refused(name: str) -> None:
    with pytest.raises(BadMessage, match=name):
        read_report({**report_metrics(REPORT, 80), name: -1})


seconds = st.floats(0, 1e6, allow_nan=False)
counts = st.integers(0, 2**53)
specs = st.builds(
    CoresetSpec,
    st.integers(1, 2**53),
    st.sampled_from(["kmedoids", "uniform-plain"]),
    st.sampled_from(["input", "last-layer-input", "none"]),
    st.sampled_from(list(Weighting)),
    seconds,
    st.lists(st.tuples(st.text(max_size=5), st.integers(-9, 9)), max_size=2).map(tuple),
)
phases = st.builds(Phase, st.integers(1, 1000), st.none() | specs, st.none() | seconds)
plans = st.builds(
    LocalPlan,
    st.lists(phases, max_size=3).map(tuple),
    st.sampled_from(list(Way)),
    seconds,
    seconds,
)
jobs = st.builds(Assignment, counts, plans, counts, counts, counts)
orders = st.builds(Order, jobs, seconds, st.floats(-1e6, 1e6), counts, st.integers(0, 1))
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=3,
)


@settings(max_examples=500, deadline=None)
@given(order=orders)
def test_every_order_arrives_as_it_was_sent(order: Order) -> None:
    assert read_order(order_text(order)) == order


def replaced(told: object, way: list[int], value: object) -> object:
    """``told`` with one part, found by the ``way`` into it, replaced by ``value``."""
    if not way or not isinstance(told, dict | list) or not told:
        return value
    place = way[0] % len(told)
    if isinstance(told, list):
        return [replaced(v, way[1:], value) if n == place else v for n, v in enumerate(told)]
    return {
        key: replaced(v, way[1:], value) if n == place else v
        for n, (key, v) in enumerate(told.items())
    }


@settings(max_examples=2000, deadline=None)
@given(order=orders, way=st.lists(st.integers(0, 50), max_size=6), value=anything)
def test_a_changed_order_is_refused_or_read_again(
    order: Order, way: list[int], value: object
) -> None:
    text = json.dumps(replaced(json.loads(order_text(order)), way, value))
    try:
        told = read_order(text)
    except BadMessage:
        return
    assert read_order(order_text(told)) == told  # nothing is in it that cannot travel


@settings(max_examples=500, deadline=None)
@given(text=st.text(max_size=60) | st.binary(max_size=60) | anything)
def test_what_is_no_order_is_refused(text: object) -> None:
    with pytest.raises(BadMessage):
        read_order(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, [1], {}, None])
def test_options_of_a_selector_are_plain(value: object) -> None:
    told = json.loads(order_text(ORDER))
    told["assignment"]["plan"]["phases"][1]["coreset"]["options"] = [["a", value]]
    with pytest.raises(BadMessage, match="option"):
        read_order(json.dumps(told))


def test_an_order_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(BadMessage):
        read_order("[" * 100_000)


@settings(max_examples=2000, deadline=None)
@given(
    said=st.dictionaries(
        st.sampled_from(sorted(report_metrics(REPORT, 80))), anything, min_size=1, max_size=3
    )
)
def test_a_changed_report_is_refused_or_read_again(said: dict[str, object]) -> None:
    try:
        report, examples = read_report({**report_metrics(REPORT, 80), **said})
    except BadMessage:
        return
    assert read_report(report_metrics(report, examples)) == (report, examples)
