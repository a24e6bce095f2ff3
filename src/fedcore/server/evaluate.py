"""How good a global model is on data: mean loss (Eq. 1) and accuracy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from fedcore.task import Task, sample_losses
from fedcore.types import ClientData, Generator, Params

CHUNK = 4096  # samples a forward pass takes at a time: bounds memory, not results


@dataclass(frozen=True, slots=True)
class Score:
    """Mean loss and share of right answers."""

    loss: float
    accuracy: float


@torch.no_grad()
def evaluate(task: Task, params: Params, data: ClientData) -> Score:
    """L(w) = Σ_i p^i L^i(w) over the pooled samples, and the accuracy on them."""
    loss, right = 0.0, 0
    for start in range(0, len(data), CHUNK):
        x, y = data.take(slice(start, start + CHUNK))
        logits = task.logits(params, x)
        loss += float(sample_losses(logits, y).double().sum())
        right += int((logits.argmax(dim=1) == y).sum())
    return Score(loss / len(data), right / len(data))


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
