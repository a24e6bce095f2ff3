"""What crosses the network beside models: an order to a node, and its report; no pickle.

An order is one JSON text in the ConfigRecord of a message, under ``ORDER``. A report is a
MetricRecord of plain numbers: ``num-examples``, as Flower has it, and those of ``Report`` in
kebab case. Both may come from anybody: what does not fit is refused in a sentence.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedcore import plugins
from fedcore.coreset.proxies import NONE, PROXIES
from fedcore.errors import FedCoreError
from fedcore.types import Assignment, CoresetSpec, LocalPlan, Path, Phase, Weighting

FORMAT = 1
ORDER, EXAMPLES = "fedcore-order", "num-examples"
SHIFT = "fedcore-shift"  # an ArrayRecord beside the model: a job's shift, where it has one
MOST = 2**53  # beyond it a float holds no whole number exactly


class BadMessage(FedCoreError):
    """An order or an answer that cannot be what it says it is."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a node is told: its job, how long it has, and what the way back takes."""

    assignment: Assignment  # without the shift, which is a record of arrays of its own
    deadline: float  # seconds from the moment at which the message was made
    back: float  # of those, the answer's way to the server, less the error of the node's clock
    ticket: int  # names this order: an answer without it belongs to another


@dataclass(frozen=True, slots=True)
class Report:
    """What a node says beside its model; the server believes none of it before it was checked."""

    ticket: int
    base_version: int
    steps: int
    work: int  # samples processed
    training_seconds: float  # that these took
    age: float  # of the order when the node began, by the clocks of both
    handler_seconds: float  # from then to the moment at which the answer was handed over
    loss_sum: float = 0.0
    loss_square_sum: float = 0.0
    loss_count: int = 0
    coreset_size: int = 0  # 0: none
    gradient_error: float = -1.0  # below 0: not known
    fell_back: int = 0  # 1: a plain draw took the place of the selector's choice
    cut_short: int = 0  # 1: time was up before the work was done


def order_text(order: Order) -> str:
    """An order as it travels."""
    told = order.assignment
    values = {
        "format": FORMAT,
        "client": told.client_id,
        "version": told.base_version,
        "seed": told.seed,
        "repeat": told.repeat,
        "plan": dataclasses.asdict(told.plan),
        "deadline": order.deadline,
        "back": order.back,
        "ticket": order.ticket,
    }
    return json.dumps(values, allow_nan=False)


def read_order(text: object) -> Order:
    """The order that travelled."""
    try:
        told = json.loads(text) if isinstance(text, str) else None
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            raise BadMessage(
                f"the order is not of format {FORMAT}; server and client need one FedCore version"
            )
        assignment = Assignment(
            client_id=_whole(told, "client"),
            plan=_plan(told["plan"]),
            base_version=_whole(told, "version"),
            seed=_whole(told, "seed"),
            repeat=_whole(told, "repeat"),
        )
        # Where a node's clock is ahead, what cancels its error is a way back below 0.
        deadline, back = _number(told, "deadline"), _number(told, "back", -MOST)
        return Order(assignment, deadline, back, _whole(told, "ticket"))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadMessage(f"the order cannot be read: {error!r}"[:200]) from None


def report_metrics(report: Report, examples: int) -> dict[str, int | float]:
    """A report as the numbers of a MetricRecord."""
    named = {name.replace("_", "-"): v for name, v in dataclasses.asdict(report).items()}
    return {EXAMPLES: examples, **named}


def read_report(metrics: Mapping[str, Any]) -> tuple[Report, int]:
    """A report, and how many samples the node says that it holds."""
    try:
        values: dict[str, Any] = {}
        for field in dataclasses.fields(Report):
            name = field.name.replace("_", "-")
            # Clocks may be apart by any time, so an age may lie below 0.
            whole = field.type == "int"
            values[field.name] = _whole(metrics, name) if whole else _number(metrics, name, -MOST)
        return Report(**values), _whole(metrics, EXAMPLES)
    except KeyError as error:
        raise BadMessage(f"the answer has no {error}; call report() on the client") from None


def _plan(told: Mapping[str, Any]) -> LocalPlan:
    phases = tuple(_phase(phase) for phase in told["phases"])
    rest = {name: value for name, value in told.items() if name not in ("phases", "path")}
    return LocalPlan(phases, Path(told["path"]), **{name: _number(rest, name) for name in rest})


def _phase(told: Mapping[str, Any]) -> Phase:
    price = None if told["forward_price"] is None else _number(told, "forward_price")
    epochs = _whole(told, "epochs", least=1)
    if told["coreset"] is None:
        return Phase(epochs, None, price)
    spec = dict(told["coreset"])
    for kind, known in (("selector", plugins.names("selector")), ("proxy", (*PROXIES, NONE))):
        if spec[kind] not in known:  # a path would let a server choose what a client runs
            raise BadMessage(f"{kind} {str(spec[kind])[:40]!r} is not one of {', '.join(known)}")
    options = tuple((str(name), value) for name, value in spec["options"])
    for name, value in options:
        real = isinstance(value, int | float) and abs(value) <= MOST
        if not real and not isinstance(value, str):
            raise BadMessage(f"option {name:.40} must be text or a number, got {value!r:.40}")
    coreset = CoresetSpec(
        _whole(spec, "budget", least=1),
        spec["selector"],
        spec["proxy"],
        Weighting(spec["weighting"]),
        _number(spec, "price"),
        options,
    )
    return Phase(epochs, coreset, price)


def _whole(values: Mapping[str, Any], name: str, least: float = 0) -> int:
    value = values[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        raise BadMessage(f"{name} must be a whole number from {least:g} on, got {value!r:.40}")
    return value


def _number(values: Mapping[str, Any], name: str, least: float = 0) -> float:
    value = values[name]
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or not least <= value <= MOST:  # which NaN is not
        raise BadMessage(f"{name} must be a number from {least:g} on, got {value!r:.40}")
    return float(value)
