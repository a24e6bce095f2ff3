"""Answers are checked before anything is done with them: a node may send what it likes.

Arrays are read from their bytes alone, never by pickle; what a node says of their types and shapes
does not count. Whatever is wrong is one ``BadMessage`` with the reason.
"""

from __future__ import annotations

import math
from io import BytesIO

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
from torch import Tensor

from fedcore.errors import BadOption
from fedcore.flower.wire import BadMessage, Report, read_report
from fedcore.types import Assignment, Params

WEIGHT = "weight"  # in the payload of an update
SLACK = 1.0  # seconds that two clocks may be apart over one job
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


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


def read_counts(
    content: RecordDict, told: Assignment, ticket: int, epochs: int, trip: float
) -> tuple[Report, int, MetricRecord]:
    """What a node reports, how many samples it holds, and all its metrics, if they can be true."""
    records = [record for record in content.values() if isinstance(record, MetricRecord)]
    if len(records) != 1:
        raise BadMessage(f"the answer must have one MetricRecord, got {len(records)}")
    report, examples = read_report(records[0])
    if (report.ticket, report.base_version) != (ticket, told.base_version):
        raise BadMessage(f"the answer is to order {report.ticket}, not to order {ticket}")
    limits = {
        "steps": (report.steps, report.work),
        "work": (report.work, (epochs + 1) * examples),  # E epochs, and a pass that only looks
        "loss-count": (report.loss_count, examples),
        "coreset-size": (report.coreset_size, examples),
        "training-seconds": (report.training_seconds, report.handler_seconds + SLACK),
        "handler-seconds": (report.handler_seconds, trip + SLACK),
    }
    for name, (value, limit) in limits.items():
        if not 0 <= value <= limit:
            raise BadMessage(f"{name} cannot be {value:g}: at most {limit:g} is possible")
    return report, examples, records[0]


def read_model(content: RecordDict, base: Params, longest: float) -> tuple[Params, float]:
    """The model w of an answer, and ||w - w_base||, which is at most ``longest``.

    It has the names, shapes and types of ``base``, and every value is finite.
    """
    # Not by content.array_records, whose cycle would keep the model until the next collection.
    records = [record for record in content.values() if isinstance(record, ArrayRecord)]
    if len(records) != 1:
        raise BadMessage(f"the answer must have one ArrayRecord, got {len(records)}")
    if odd := sorted(records[0].keys() ^ base.keys()):
        raise BadMessage(f"the answer has other arrays than the model: {odd[0]!r:.60}")
    params = {name: _tensor(name, records[0][name].data, like) for name, like in base.items()}
    moved = (params[n].double() - v.double() for n, v in base.items() if v.is_floating_point())
    norm = math.sqrt(sum(float(value.square().sum()) for value in moved))
    if not norm <= longest:
        raise BadMessage(
            f"the update has norm {norm:.3g}, above {longest:.3g}, ten times the usual"
        )
    return params, norm


def read_weight(metrics: MetricRecord, key: str | None) -> Params | None:
    """What an answer weighs, by the metric that the user named."""
    if key is None:
        return None
    value = metrics.get(key)
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise BadMessage(f"{key} must be a number above 0, got {value!r:.40}")
    return {WEIGHT: torch.tensor(value, dtype=torch.float64)}


def _tensor(name: str, data: bytes, like: Tensor) -> Tensor:
    expected = like.numpy().dtype
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
