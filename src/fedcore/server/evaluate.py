"""How good a global model is on data: mean loss (Eq. 1) and accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedcore.task import Task
from fedcore.types import ClientData, ClientId, Generator, Params

# Samples a forward pass takes at a time: bounds memory, not results. On a CPU, what a chunk of
# several layers leaves behind should fit its caches; one layer leaves little, and calls count.
CHUNK = 4096
CPU_CHUNK = 128

Forward = Callable[[Params, Tensor], Tensor]  # scores [batch, classes]


@dataclass(frozen=True, slots=True)
class Score:
    """Mean loss and share of right answers."""

    loss: float
    accuracy: float


def evaluate(task: Task, params: Params, data: ClientData) -> Score:
    """L(w) = Σ_i p^i L^i(w) over the pooled samples, and the accuracy on them."""
    return Evaluator([task.logits]).score(params, data)


class Evaluator:
    """Scores models chunk by chunk, on as many threads as there are forward passes.

    A module that is called with parameters swaps its own for them, so a thread needs a pass for
    itself. On a CPU a thread is one core: several cores on one chunk gain less than several
    chunks, and lose on a busy machine. Sums are added in the order of the samples, so threads
    change no result.
    """

    def __init__(self, passes: Sequence[Forward]) -> None:
        """Bind the forward passes, one for each thread."""
        self._passes = passes
        self._workers = ThreadPoolExecutor(len(passes)) if len(passes) > 1 else None

    def score(self, params: Params, data: ClientData) -> Score:
        """L(w) = Σ_i p^i L^i(w) over the pooled samples, and the accuracy on them."""
        return _score(self._summed(params, data), len(data))

    def score_each(self, params: Params, clients: Iterable[ClientData]) -> Score:
        """The same over clients that come one after another: no more than one is held at a time."""
        device = next(iter(params.values())).device
        sums, count = torch.zeros(2, dtype=torch.float64, device=device), 0
        for data in clients:
            sums += self._summed(params, data.to(device))
            count += len(data)
        return _score(sums, count)

    def _summed(self, params: Params, data: ClientData) -> Tensor:
        chunk = _chunk(params)
        parts = [slice(start, start + chunk) for start in range(0, len(data), chunk)]
        if self._workers is None or len(parts) == 1:
            sums = _sums(self._passes[0], params, data, parts)
        else:
            sums = self._on_threads(self._workers, params, data, parts)
        return torch.stack(sums).sum(dim=0)

    def _on_threads(
        self, workers: ThreadPoolExecutor, params: Params, data: ClientData, parts: list[slice]
    ) -> list[Tensor]:
        threads = len(self._passes)

        def share(number: int) -> list[Tensor]:
            torch.set_num_threads(1)
            return _sums(self._passes[number], params, data, parts[number::threads])

        before = torch.get_num_threads()
        try:
            shares = list(workers.map(share, range(threads)))
        finally:
            torch.set_num_threads(before)
        return [shares[place % threads][place // threads] for place in range(len(parts))]


@torch.no_grad()
def _sums(
    forward: Forward, params: Params, data: ClientData, parts: Iterable[slice]
) -> list[Tensor]:
    """Sum of losses and number of right answers [2] of each part.

    L_j = log Σ_c exp a_jc - a_jy, the cross-entropy; over few classes PyTorch's own takes five
    times as long on a CPU.
    """
    sums = []
    for part in parts:
        x, y = data.take(part)
        scores = forward(params, x)
        losses = scores.logsumexp(dim=1) - scores.gather(1, y.long()[:, None])[:, 0]
        right = (scores.argmax(dim=1) == y).sum()
        sums.append(torch.stack([losses.double().sum(), right.double()]))
    return sums


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
