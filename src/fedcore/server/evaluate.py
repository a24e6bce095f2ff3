"""How good a global model is on data: mean loss (Eq. 1) and accuracy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from fedcore.task import Task, sample_losses
from fedcore.types import ClientData, Generator, Params

# Samples a forward pass takes at a time: bounds memory, not results. On a CPU, what a chunk of
# several layers leaves behind should fit its caches; one layer leaves little, and calls count.
CHUNK = 4096
CPU_CHUNK = 128


@dataclass(frozen=True, slots=True)
class Score:
    """Mean loss and share of right answers."""

    loss: float
    accuracy: float


@torch.no_grad()
def evaluate(task: Task, params: Params, data: ClientData) -> Score:
    """L(w) = Σ_i p^i L^i(w) over the pooled samples, and the accuracy on them."""
    chunk = _chunk(params)
    sums = []
    for start in range(0, len(data), chunk):
        x, y = data.take(slice(start, start + chunk))
        logits = task.logits(params, x)
        right = (logits.argmax(dim=1) == y).double().sum()
        sums.append(torch.stack([sample_losses(logits, y).double().sum(), right]))
    # One look at the device for all chunks
    loss, hits = torch.stack(sums).sum(dim=0).tolist()
    return Score(loss / len(data), hits / len(data))


def _chunk(params: Params) -> int:
    first = next(iter(params.values()))
    layers = sum(value.dim() > 1 for value in params.values())
    return min(CHUNK, CPU_CHUNK) if first.device.type == "cpu" and layers > 1 else CHUNK


def draw(data: ClientData, count: int, generator: Generator) -> ClientData:
    """``count`` of the samples, drawn once, so that rounds and strategies are comparable."""
    if count == 0 or count >= len(data):
        return data
    chosen = np.sort(generator.choice(len(data), size=count, replace=False))
    return ClientData(*data.take(torch.from_numpy(chosen)))


def pool(clients: Iterable[ClientData]) -> ClientData:
    """All clients' samples in one piece."""
    inputs, labels = zip(*(client.take(slice(None)) for client in clients), strict=True)
    return ClientData(torch.cat(inputs), torch.cat(labels))
