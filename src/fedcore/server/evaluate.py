"""How good a global model is on data: mean loss (Eq. 1) and accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedcore.task import Task, sample_losses
from fedcore.types import ClientData, ClientId, Generator, Params

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
    return _score(_sums(task, params, data), len(data))


@torch.no_grad()
def evaluate_each(task: Task, params: Params, clients: Iterable[ClientData]) -> Score:
    """The same over clients that come one after another: no more than one is held at a time."""
    device = next(iter(params.values())).device
    sums, count = torch.zeros(2, dtype=torch.float64, device=device), 0
    for data in clients:
        sums += _sums(task, params, data.to(device))
        count += len(data)
    return _score(sums, count)


def _sums(task: Task, params: Params, data: ClientData) -> Tensor:
    """Losses and right answers of all samples, added up [2]."""
    chunk = _chunk(params)
    sums = []
    for start in range(0, len(data), chunk):
        x, y = data.take(slice(start, start + chunk))
        logits = task.logits(params, x)
        right = (logits.argmax(dim=1) == y).double().sum()
        sums.append(torch.stack([sample_losses(logits, y).double().sum(), right]))
    return torch.stack(sums).sum(dim=0)


def _score(sums: Tensor, count: int) -> Score:
    loss, hits = sums.tolist()  # one look at the device for all chunks
    return Score(loss / count, hits / count)


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


def draw_from(
    clients: Mapping[ClientId, ClientData],
    sizes: Mapping[ClientId, int],
    count: int,
    generator: Generator,
) -> ClientData:
    """What ``draw`` takes of all clients' samples in one piece, without making that piece."""
    ends = np.cumsum(np.fromiter(sizes.values(), np.int64, len(sizes)))
    chosen = np.sort(generator.choice(int(ends[-1]), size=count, replace=False))
    owners, first = np.unique(np.searchsorted(ends, chosen, side="right"), return_index=True)
    ids = list(sizes)
    parts = []
    for owner, rows in zip(owners.tolist(), np.split(chosen, first[1:]), strict=True):
        client = ids[owner]
        start = ends[owner] - sizes[client]
        parts.append(clients[client].take(torch.from_numpy(rows - start)))
    inputs, labels = zip(*parts, strict=True)
    return ClientData(torch.cat(inputs), torch.cat(labels))


def pool(clients: Iterable[ClientData]) -> ClientData:
    """All clients' samples in one piece."""
    inputs, labels = zip(*(client.take(slice(None)) for client in clients), strict=True)
    return ClientData(torch.cat(inputs), torch.cat(labels))
