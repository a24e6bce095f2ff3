"""What crosses the network: models, an order to a node, and its report; no pickle.

An order is one JSON text in a ConfigRecord, under ``ORDER``. A report is a MetricRecord of
``num-examples``, as Flower has it, and those numbers of ``Report`` in kebab case. Arrays are read
from their bytes alone. All may come from anybody: what does not fit is one ``BadMessage``.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, TypeVar

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
from torch import Tensor

from fedcore import plugins
from fedcore.coreset.proxies import NONE, PROXIES
from fedcore.errors import BadOption, FedCoreError
from fedcore.types import Assignment, CoresetSpec, LocalPlan, Params, Phase, Way, Weighting

FORMAT = 1
ORDER, EXAMPLES = "fedcore-order", "num-examples"
SHIFT = "fedcore-shift"  # an ArrayRecord beside the model: a job's shift, where it has one
WEIGHT = "weight"  # in the payload of an update
MOST = 2**53  # beyond it a float holds no whole number exactly
SLACK = 1.0  # seconds that two clocks may be apart over one job
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
Record = TypeVar("Record", ArrayRecord, MetricRecord)


class BadMessage(FedCoreError):
    """An order or an answer that cannot be what it says it is."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a node is told: its job, how long it has, and what the way back takes."""

    assignment: Assignment  # without the shift, which is a record of arrays of its own
    deadline: float  # seconds from the moment at which the message was made
    back: float  # of those, the answer's way to the server, less the error of the node's clock
    ticket: int  # names this order: an answer without it belongs to another
    virtual: int = 0  # 1: seconds count from the moment at which the node begins


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
    job = {"client": told.client_id, "version": told.base_version, "seed": told.seed}
    job |= {"repeat": told.repeat, "ticket": order.ticket, "virtual": order.virtual}
    times = {"deadline": order.deadline, "back": order.back}
    plan = dataclasses.asdict(told.plan)
    return json.dumps({"format": FORMAT, **job, **times, "plan": plan}, allow_nan=False)


def read_order(text: object) -> Order:
    """The order that travelled."""
    try:
        told = json.loads(text) if isinstance(text, str) else None
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            raise BadMessage(
                f"the order is not of format {FORMAT}; server and client need one FedCore version"
            )
        names = ("client", "version", "seed", "repeat", "ticket", "virtual")
        client, version, seed, repeat, ticket, virtual = (_whole(told, name) for name in names)
        assignment = Assignment(client, _plan(told["plan"]), version, seed, repeat)
        # Where a node's clock is ahead, what cancels its error is a way back below 0.
        deadline, back = _number(told, "deadline"), _number(told, "back", -MOST)
        return Order(assignment, deadline, back, ticket, virtual)
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
            name, whole = field.name.replace("_", "-"), field.type == "int"
            # Clocks may be apart by any time, so an age may lie below 0.
            values[field.name] = _whole(metrics, name) if whole else _number(metrics, name, -MOST)
        return Report(**values), _whole(metrics, EXAMPLES)
    except KeyError as error:
        raise BadMessage(f"the answer has no {error}; call report() on the client") from None


def read_counts(
    content: RecordDict, told: Assignment, ticket: int, epochs: int, trip: float
) -> tuple[Report, int, MetricRecord]:
    """What a node reports, how many samples it holds, and all its metrics, if they can be true."""
    metrics = _only(content, MetricRecord)
    report, examples = read_report(metrics)
    if (report.ticket, report.base_version) != (ticket, told.base_version):
        raise BadMessage(f"the answer is to order {report.ticket}, not to order {ticket}")
    limits = {
        "steps": report.work,
        "work": (epochs + 1) * examples,  # E epochs, and a pass that only looks
        "loss_count": examples,
        "coreset_size": examples,
        "training_seconds": report.handler_seconds + SLACK,
        "handler_seconds": trip + SLACK,
    }
    for name, limit in limits.items():
        if not 0 <= (value := getattr(report, name)) <= limit:
            raise BadMessage(f"{name} cannot be {value:g}: at most {limit:g} is possible")
    return report, examples, metrics


def read_weight(metrics: MetricRecord, key: str | None) -> Params | None:
    """What an answer weighs, by the metric that the user named."""
    if key is None:
        return None
    value = metrics.get(key)
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise BadMessage(f"{key} must be a number above 0, got {value!r:.40}")
    return {WEIGHT: torch.tensor(value, dtype=torch.float64)}


def to_record(params: Params) -> ArrayRecord:
    """A model as it travels."""
    return ArrayRecord({name: Array(value.numpy()) for name, value in params.items()})


def initial_params(record: ArrayRecord) -> Params:
    """The model that a user starts from."""
    if not record:
        raise BadOption("initial_arrays must hold a model, got an empty ArrayRecord")
    try:
        return {name: torch.from_numpy(array.numpy().copy()) for name, array in record.items()}
    except (TypeError, ValueError) as error:
        raise BadOption(f"initial_arrays cannot be read as tensors: {error}") from None


def read_model(content: RecordDict, base: Params, longest: float) -> tuple[Params, float]:
    """The model w of an answer, and ||w - w_base||, which is at most ``longest``.

    It has the names, shapes and types of ``base``, and every value is finite.
    """
    record = _only(content, ArrayRecord)
    if odd := sorted(record.keys() ^ base.keys()):
        raise BadMessage(f"the answer has other arrays than the model: {odd[0]!r:.60}")
    params = {name: _tensor(name, record[name].data, like) for name, like in base.items()}
    moved = (params[n].double() - v.double() for n, v in base.items() if v.is_floating_point())
    norm = math.sqrt(sum(float(value.square().sum()) for value in moved))
    if not norm <= longest:
        raise BadMessage(f"the update has norm {norm:.3g}, above {longest:.3g}, ten usual ones")
    return params, norm


def _only(content: RecordDict, kind: type[Record]) -> Record:
    # Not by content.array_records, whose cycle would keep the model until the next collection.
    records = [record for record in content.values() if isinstance(record, kind)]
    if len(records) != 1:
        raise BadMessage(f"the answer must have one {kind.__name__}, got {len(records)}")
    return records[0]


def _tensor(name: str, data: bytes, like: Tensor) -> Tensor:
    expected = like.numpy().dtype
    try:
        file = BytesIO(data)
        shape, fortran, found = HEADERS[np.lib.format.read_magic(file)](file)
    except Exception as error:  # whatever NumPy says to bytes that are none of its files
        raise BadMessage(f"array {name!r} cannot be read: {error!r:.80}") from None
    body = memoryview(data)[file.tell() :]
    if (shape, found, len(body)) != (tuple(like.shape), expected, like.nbytes):
        was = f"{found}{list(shape)} in {len(body)} bytes"
        raise BadMessage(f"array {name!r} is {was:.80}, not {expected}{list(like.shape)}")
    values = np.ndarray(shape[::-1] if fortran else shape, found, body)
    tensor = torch.from_numpy((values.T if fortran else values).copy())
    if not bool(torch.isfinite(tensor).all()):
        raise BadMessage(f"array {name!r} has NaN or infinity in it")
    return tensor


def _plan(told: Mapping[str, Any]) -> LocalPlan:
    phases = tuple(_phase(phase) for phase in told["phases"])
    rest = {name: _number(told, name) for name in told if name not in ("phases", "path")}
    return LocalPlan(phases, Way(told["path"]), **rest)


def _phase(told: Mapping[str, Any]) -> Phase:
    price = None if told["forward_price"] is None else _number(told, "forward_price")
    epochs = _whole(told, "epochs", 1)
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
    numbers = {"budget": _whole(spec, "budget", 1), "price": _number(spec, "price")}
    own = spec | numbers | {"weighting": Weighting(spec["weighting"]), "options": options}
    return Phase(epochs, CoresetSpec(**own), price)


def _whole(values: Mapping[str, Any], name: str, least: float = 0) -> int:
    if not isinstance(values[name], int):
        raise BadMessage(f"{name} must be a whole number, got {values[name]!r:.40}")
    return int(_number(values, name, least))  # which is exact up to MOST


def _number(values: Mapping[str, Any], name: str, least: float = 0) -> float:
    value = values[name]
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or not least <= value <= MOST:  # which NaN is not
        raise BadMessage(f"{name} must be a number from {least:g} on, got {value!r:.40}")
    return float(value)
