"""Answers are checked before anything is done with them: a node may send what it likes.

Arrays are read from their bytes alone, never by pickle; what a node says of their types and shapes
does not count. Whatever is wrong is one ``BadMessage`` with the reason.
"""

from __future__ import annotations

import dataclasses
import math
from io import BytesIO

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
from torch import Tensor

from fedcore.errors import BadOption
from fedcore.flower.wire import BadMessage, Report, read_report
from fedcore.types import Assignment, Params

REPORTED = {field.name.replace("_", "-") for field in dataclasses.fields(Report)}
WEIGHT = "weight"
SLACK = 1.0  # seconds that two clocks may be apart over one job
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def to_record(params: Params) -> ArrayRecord:
    """A model as it travels."""
    return ArrayRecord({name: Array(value.cpu().numpy()) for name, value in params.items()})


def initial_params(record: ArrayRecord) -> Params:
    """The model that a user starts from."""
    if not record:
        raise BadOption("initial_arrays must hold a model, got an empty ArrayRecord")
    try:
        return {name: torch.from_numpy(array.numpy().copy()) for name, array in record.items()}
    except (TypeError, ValueError) as error:
        raise BadOption(f"initial_arrays cannot be read as tensors: {error}") from None


def read_counts(
    content: RecordDict, told: Assignment, ticket: int, epochs: int, trip: float
) -> tuple[Report, int, MetricRecord]:
    """What a node reports, how many samples it holds, and all its metrics, if they can be true."""
    records = list(content.metric_records.values())
    if len(records) != 1:
        raise BadMessage(f"the answer must have one MetricRecord, got {len(records)}")
    report, examples = read_report(records[0])
    if report.ticket != ticket or report.base_version != told.base_version:
        raise BadMessage(f"the answer is to order {report.ticket}, not to order {ticket}")
    most = (epochs + 1) * examples  # E epochs, and a pass that only looks
    limits = {
        "steps": (report.steps, report.work),
        "work": (report.work, most),
        "loss-count": (report.loss_count, examples),
        "coreset-size": (report.coreset_size, examples),
        "training-seconds": (report.training_seconds, report.handler_seconds + SLACK),
        "handler-seconds": (report.handler_seconds, trip + SLACK),
    }
    for name, (value, limit) in limits.items():
        if not 0 <= value <= limit:
            raise BadMessage(f"{name} cannot be {value:g}: at most {limit:g} is possible")
    if report.work and not (examples and report.steps):
        raise BadMessage(f"{report.work} samples cannot be processed in {report.steps} steps")
    return report, examples, records[0]


def read_params(content: RecordDict, base: Params) -> Params:
    """The model of an answer: names, shapes and types of ``base``, and every value finite."""
    records = list(content.array_records.values())
    if len(records) != 1:
        raise BadMessage(f"the answer must have one ArrayRecord, got {len(records)}")
    if (found := records[0].keys()) != base.keys():
        odd = sorted(found ^ base.keys())
        raise BadMessage(f"the answer has other arrays than the model: {odd[0]!r:.60}")
    return {name: _tensor(name, records[0][name].data, like) for name, like in base.items()}


def distance(params: Params, base: Params) -> float:
    """||w - w_base||, over all that is not a whole number."""
    moved = [params[n].double() - v.double() for n, v in base.items() if v.is_floating_point()]
    return math.sqrt(sum(float(value.square().sum()) for value in moved))


def read_answer(content: RecordDict, base: Params, longest: float) -> tuple[Params, float]:
    """The model of an answer, and how far it is from ``base``: at most ``longest``."""
    params = read_params(content, base)
    norm = distance(params, base)
    if not norm <= longest:
        raise BadMessage(
            f"the update has norm {norm:.3g}, above {longest:.3g}: ten times the usual"
        )
    return params, norm


def read_weight(metrics: MetricRecord, key: str | None) -> Params | None:
    """What an answer weighs, by the metric that the user named."""
    if key is None:
        return None
    value = metrics.get(key)
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise BadMessage(f"{key} must be a number above 0, got {value!r:.40}")
    return {WEIGHT: torch.tensor(float(value), dtype=torch.float64)}


def own_metrics(metrics: MetricRecord) -> RecordDict:
    """The metrics that are the user's, not the report's."""
    return RecordDict(
        {"metrics": MetricRecord({k: v for k, v in metrics.items() if k not in REPORTED})}
    )


def _tensor(name: str, data: bytes, like: Tensor) -> Tensor:
    expected = np.dtype(str(like.dtype).removeprefix("torch."))
    try:
        file = BytesIO(data)
        shape, fortran, found = HEADERS[np.lib.format.read_magic(file)](file)
    except Exception as error:  # whatever NumPy says to bytes that are none of its files
        raise BadMessage(f"array {name!r} cannot be read: {error!r:.80}") from None
    if shape != tuple(like.shape) or found != expected:
        was = f"{found}{list(shape)}"
        raise BadMessage(f"array {name!r} is {was:.60}, not {expected}{list(like.shape)}")
    body = memoryview(data)[file.tell() :]
    if len(body) != like.nbytes:
        raise BadMessage(f"array {name!r} has {len(body)} bytes, not {like.nbytes}")
    values = np.ndarray(shape[::-1] if fortran else shape, found, body)
    tensor = torch.from_numpy((values.T if fortran else values).copy())
    if not bool(torch.isfinite(tensor).all()):
        raise BadMessage(f"array {name!r} has NaN or infinity in it")
    return tensor
