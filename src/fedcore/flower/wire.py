"""What crosses the network: models, an order to a node, and its report; no pickle.

An order is JSON in a ConfigRecord, a report a MetricRecord; what does not fit is a ``BadMessage``.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import torch
from flwr.app import ArrayRecord, MetricRecord, RecordDict
from torch import Tensor

from fedcore import compression, plugins
from fedcore.compression import Compression, Packed
from fedcore.coreset.proxies import NONE, PROXIES
from fedcore.errors import BadOption, FedCoreError
from fedcore.server.loop import checked
from fedcore.types import Assignment, Params
from fedcore.values import at_least, convert, one_of

FORMAT = 2
ORDER, EXAMPLES = "fedcore-order", "num-examples"
SHIFT = "fedcore-shift"  # an ArrayRecord beside the model: a job's shift, where it has one
UNSENT = "fedcore-unsent"  # an ArrayRecord that a node keeps: what it has not sent of its moves
PACKED = ("fedcore-indices", "fedcore-values", "fedcore-scales")  # of an answer, for a model
MOST = 2**53  # beyond it a float holds no whole number exactly
LONGEST = 2.0**40  # seconds that two clocks may be apart: thousands of years
SAFE = 0.98  # of a node's time is planned with, and used
SLACK = 1.0  # seconds that two clocks may be apart over one job


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
    compress: str = "none"  # how the answer is to be sent


@dataclass(slots=True)
class Report:
    """What a node says beside its model; the server believes none of it before it was checked."""

    ticket: int
    base_version: int
    steps: int = 0
    work: int = 0  # samples processed
    training_seconds: float = 0.0  # that these took
    age: float = 0.0  # of the order when the node began, by the clocks of both
    handler_seconds: float = 0.0  # from then to the moment at which the answer was handed over
    loss_sum: float = 0.0
    loss_square_sum: float = 0.0
    loss_count: int = 0
    coreset_size: int = 0  # 0: none
    gradient_error: float = -1.0  # below 0: not known
    fell_back: int = 0  # 1: a plain draw took the place of the selector's choice
    cut_short: int = 0  # 1: time was up before the work was done


def order_text(order: Order) -> str:
    """An order as it travels."""
    plain = replace(order, assignment=replace(order.assignment, shift=None))
    return json.dumps({"format": FORMAT, **asdict(plain)}, allow_nan=False)


def read_order(text: Any) -> Order:
    """The order that travelled."""
    try:
        told = json.loads(text)
        if told.pop("format", None) != FORMAT:
            what = f"the order is not of format {FORMAT}"
            raise BadMessage(f"{what}; server and client need one FedCore version")
        order: Order = _made(Order, told)
        compression.read("compress", order.compress)
        for phase in checked(order.assignment.plan).phases:
            if phase.coreset is not None:  # a path would let a server choose what a client runs
                one_of(*plugins.names("selector"))("selector", phase.coreset.selector)
                one_of(*PROXIES, NONE)("proxy", phase.coreset.proxy)
        return order
    except (BadOption, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise BadMessage(f"the order cannot be read: {error!r:.200}") from None


def report_metrics(report: Report, examples: int) -> dict[str, int | float]:
    """A report as the numbers of a MetricRecord."""
    return {EXAMPLES: examples, **{n.replace("_", "-"): v for n, v in asdict(report).items()}}


def read_report(metrics: Mapping[str, Any]) -> tuple[Report, int]:
    """A report, and how many samples the node says that it holds."""
    try:
        kinds = {name.replace("_", "-"): kind for name, kind in get_type_hints(Report).items()}
        values = [_made(kind, metrics[name], name) for name, kind in kinds.items()]
        return Report(*values), _made(int, metrics[EXAMPLES], EXAMPLES)
    except KeyError as error:
        raise BadMessage(f"the answer has no {error}; call report() on the client") from None
    except BadOption as error:
        raise BadMessage(str(error)) from None


def read_counts(
    content: RecordDict, version: int, ticket: int, epochs: int, trip: float
) -> tuple[Report, int, MetricRecord]:
    """What a node reports, how many samples it holds, and all its metrics, if they can be true."""
    metrics: MetricRecord = _only(content, MetricRecord)
    report, examples = read_report(metrics)
    if (report.ticket, report.base_version) != (ticket, version):
        raise BadMessage(f"the answer is to order {report.ticket}, not to order {ticket}")
    limits: dict[str, float] = {"steps": report.work, "loss_count": examples}
    limits |= {"coreset_size": examples, "work": (epochs + 1) * examples}  # E, and a look
    limits |= {"training_seconds": report.handler_seconds + SLACK, "handler_seconds": trip + SLACK}
    if abs(report.age) > LONGEST:
        raise BadMessage(f"age cannot be {report.age:g} seconds")
    for name, limit in limits.items():
        if not 0 <= (value := getattr(report, name)) <= limit:
            raise BadMessage(f"{name} cannot be {value:g}: at most {limit:g} is possible")
    return report, examples, metrics


def read_weight(metrics: MetricRecord, key: str | None) -> Params | None:
    """What an answer weighs, by the metric that the user named."""
    if key is None:
        return None
    value = metrics.get(key)
    if not isinstance(value, int | float) or not 1 / MOST <= value <= MOST:
        raise BadMessage(f"{key} must be a number above 0 and at most 2^53, got {value!r:.40}")
    return {"weight": torch.tensor(value, dtype=torch.float64)}


def initial_params(record: ArrayRecord) -> Params:
    """The model that a user starts from, if answers that are formed like it can be merged."""
    try:
        params = dict(record.to_torch_state_dict())
    except (AttributeError, TypeError, ValueError) as error:
        raise BadOption(f"initial_arrays must be an ArrayRecord of tensors: {error}") from None
    if not _moving(params):
        raise BadOption("initial_arrays must hold a model, got no array of floats")
    for name, value in params.items():
        if value.is_complex() or not np.isfinite(value.numpy()).all():
            what = f"initial_arrays must be finite real numbers, but {name!r} is not"
            raise BadOption(f"{what}; leave constants out: register_buffer(persistent=False)")
    return params


def pack_model(how: Compression, params: Params, base: Params, state: RecordDict) -> Params:
    """The arrays that a node sends of its move; what it does not is kept in its ``state``."""
    kept = torch.from_numpy(state.array_records[UNSENT]["u"].numpy()) if UNSENT in state else None
    packed, kept = how.send(params, _moving(base), kept)
    state[UNSENT] = ArrayRecord({"u": kept})
    return dict(zip(PACKED, packed, strict=True))


def read_model(
    content: RecordDict, base: Params, longest: float, how: Compression | None = None
) -> tuple[Params, float]:
    """The model w of an answer, finite and formed as ``base``, and ||w - base|| <= ``longest``."""
    record, like, moving = _only(content, ArrayRecord), base, _moving(base)
    size = sum(value.numel() for value in moving.values())
    if how is not None and PACKED[0] in record:
        like = dict(zip(PACKED, how.pack(torch.zeros(size)), strict=True))
    if odd := sorted(record.keys() ^ like.keys()):
        raise BadMessage(f"the answer has other arrays than the model: {odd[0]!r:.60}")
    params = {name: _tensor(name, record[name].data, one) for name, one in like.items()}
    if how is not None and like is not base:
        packed = Packed(*params.values())
        if np.diff(packed.indices, prepend=-1, append=size).min() < 1:
            raise BadMessage(f"indices of an answer must rise, from 0 to at most {size - 1}")
        params = {**base, **how.receive(packed, moving)}  # counters stay the server's
    moved = ((params[name].double() - value.double()).square() for name, value in moving.items())
    norm = math.sqrt(sum(float(squares.sum()) for squares in moved))
    if not norm <= longest or norm == math.inf:
        raise BadMessage(f"the update has norm {norm:.3g}, above ten usual ones, {longest:.3g}")
    return params, norm


def _moving(params: Params) -> Params:
    return {name: value for name, value in params.items() if value.is_floating_point()}


def _only(content: RecordDict, kind: type) -> Any:
    # Not by content.array_records, whose cycle would keep the model until the next collection.
    records = [record for record in content.values() if isinstance(record, kind)]
    if len(records) != 1:
        raise BadMessage(f"the answer must have one {kind.__name__}, got {len(records)}")
    return records[0]


def _tensor(name: str, data: bytes, like: Tensor) -> Tensor:
    file, model = BytesIO(data), like.numpy()
    try:
        found = np.lib.format.read_array(file, allow_pickle=False)
    except Exception as error:  # whatever NumPy says to bytes that are none of its files
        raise BadMessage(f"array {name!r} cannot be read: {error!r:.80}") from None
    if (found.shape, found.dtype, file.tell()) != (model.shape, model.dtype, len(data)):
        was = f"{found.dtype}{list(found.shape)} in {len(data)} bytes"
        raise BadMessage(f"array {name!r} is {was:.80}, not {model.dtype}{list(model.shape)}")
    if not np.isfinite(found).all():
        raise BadMessage(f"array {name!r} has NaN or infinity in it")
    return torch.from_numpy(np.require(found, requirements="C"))


def _made(kind: Any, told: Any, name: str = "") -> Any:
    """The value of a ``kind`` that plain values of JSON stand for; counts are never below 0."""
    parts = get_args(kind)
    if hasattr(kind, "__dataclass_fields__"):
        kinds = get_type_hints(kind)
        return kind(**{key: _made(kinds[key], value, key) for key, value in told.items()})
    if NoneType in parts:
        return None if told is None else _made(parts[0], told, name)
    if get_origin(kind) is tuple:
        each = parts[:1] * len(told) if parts[-1] is ... else parts
        return tuple(_made(own, part, name) for own, part in zip(each, told, strict=True))
    least = 0 if kind is int else -MOST
    if kind is Any:  # an option of a selector's own
        kind = type(told) if isinstance(told, str | int) else float
    if kind not in (int, float):
        return kind(told)
    number = convert(name, told, kind)
    at_least(least, MOST)(name, number)
    return number
