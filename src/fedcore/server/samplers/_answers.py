"""What samplers that look back share: tables of what was answered, and how long jobs will take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.server.method import Draw
from fedcore.types import Params


def table(memory: Params, name: str, rows: int, columns: int) -> Tensor:
    """A copy of the table [rows, columns] called ``name``; what was never written is zero."""
    whole = torch.zeros(rows, columns, dtype=torch.float64)
    known = memory.get(name, whole[:0])
    whole[: len(known)] = known
    return whole


def profiled_seconds(
    asked: Draw, places: Sequence[int] | NDArray[np.int64], epochs: int, model_bytes: int
) -> NDArray[np.float64]:
    """Download, E m / c and upload of the clients at ``places``, by what is known of them."""
    clients = (asked.profiles[asked.sizes.ids[place]] for place in places)
    seconds = (one.seconds(epochs * one.num_samples, model_bytes) for one in clients)
    return np.fromiter(seconds, np.float64, len(places))
