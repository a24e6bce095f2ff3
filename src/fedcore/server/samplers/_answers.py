"""What samplers that look back share: tables of what was answered, and how long jobs will take."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.server.method import Draw
from fedcore.types import Params


def table(memory: Params, name: str, rows: int, columns: int) -> Tensor:
    """A copy of the table called ``name``, of so many rows at least; what is new is zero."""
    known = memory.get(name, torch.zeros(0, columns, dtype=torch.float64))
    more = torch.zeros(max(0, rows - len(known)), columns, dtype=torch.float64)
    return torch.cat([known, more])


def profiled_seconds(asked: Draw, epochs: int, model_bytes: int) -> NDArray[np.float64]:
    """Download, E m / c and upload of every client, by what is known of it."""
    clients = (asked.profiles[client] for client in asked.sizes)
    seconds = (one.seconds(epochs * one.num_samples, model_bytes) for one in clients)
    return np.fromiter(seconds, np.float64, len(asked.sizes))
