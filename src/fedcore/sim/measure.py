"""How good the model of a round is: mean loss (Eq. 1) and accuracy, on data equal for all runs."""

import math
import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedcore.bundle import Inputs, joined, parts_of
from fedcore.client.executors.stacked_model import scores_of
from fedcore.compiled import say_once
from fedcore.history import History
from fedcore.losses import measured, right_answers
from fedcore.seeding import stream
from fedcore.sim.federation import Federation
from fedcore.sources.clients import LazyClients, Streamed, sizes_of
from fedcore.task import Loss
from fedcore.types import ClientData, ClientId, Generator, Params

# Samples a forward pass takes at a time: bounds memory, not results. On a CPU, what a chunk of
# several layers leaves behind should fit its caches; one layer leaves little, and calls count.
CHUNK = 4096
CPU_CHUNK = 128
PER_CLIENT = 50  # samples that a client is judged by where not all samples are looked at

Forward = Callable[[Params, Inputs], Tensor]  # scores [batch, classes], or other outputs


@dataclass(frozen=True, slots=True)
class Score:
    """Mean loss, share of right answers, None where there are no classes, and own metrics."""

    loss: float | None
    accuracy: float | None
    metrics: Mapping[str, float | None] = field(default_factory=dict)


class Measure:
    """Scores models on training and test data of a federation, or on some of them."""

    def __init__(
        self, federation: Federation, count: int, device: torch.device, threads: int, *, split: bool
    ) -> None:
        """Draw ``count`` training and test samples, 0: all; ``split`` keeps half of these apart."""
        # A GPU has enough to do with one; 0 threads are one per core.
        passes = (threads or os.cpu_count() or 1) if device.type == "cpu" else 1
        self._metrics, loss = federation.task.terms.metrics, federation.task.terms.loss
        scores = [scores_of(federation.task, device) for _ in range(passes)]
        self._evaluator, self._forward = Evaluator(scores, loss), scores[0]
        clients, test = federation.dataset.clients, federation.dataset.test
        sizes = sizes_of(clients)
        self._clients, self._judged, self._most = clients, list(sizes), max(sizes.values())
        self._train: Iterable[ClientData] = clients.values()
        if 0 < count < sizes.counts.sum():
            drawn = draw(clients, count, stream(0, "evaluate", "train"))
            self._train = [train.to(device) for train in drawn]
            # Judged are as many clients as make ``count`` samples.
            order = stream(0, "evaluate", "clients").permutation(len(sizes))
            ends = np.minimum(sizes.counts, PER_CLIENT)[order].cumsum()
            places = np.sort(order[: np.searchsorted(ends, count) + 1])
            self._judged, self._most = [sizes.ids[place] for place in places.tolist()], PER_CLIENT
        elif not isinstance(clients, LazyClients):  # else it need not fit in memory
            self._train = [pool(clients.values()).to(device)]
        elif count == 0 and clients.costly:
            self._train, self._judged = [], []
            say_once("set evaluate_samples to know the training loss of clients that are Datasets")
        halves = {"test": test}
        if split and test is not None:
            order = stream(0, "evaluate", "halves").permutation(len(test))
            parts = np.split(order, [len(test) // 2])
            pieces = (ClientData(*test.take(torch.from_numpy(np.sort(part)))) for part in parts)
            halves = dict(zip(("validation", "test"), pieces, strict=True))
        for name, half in halves.items():
            if half is not None and 0 < count < len(half):
                halves[name] = draw({0: half}, count, stream(0, "evaluate", name))[0]
        self._held_out = {name: half.to(device) for name, half in halves.items() if half}
        if self._metrics:  # those that fail do so before anything is trained
            self.test({name: value.to(device) for name, value in federation.initial.items()})

    def train(self, params: Params) -> Score | None:
        """L(w) of Eq. 1 and the accuracy on training data, unless reading them takes too long."""
        return self._evaluator.score(params, self._train) if self._train else None

    def test(self, params: Params, half: str = "test") -> Score | None:
        """The same on held-out data, if there are any, or on the half called 'validation'."""
        data = self._held_out.get(half)
        if data is None:
            return None
        score = self._evaluator.score(params, [data])
        if not self._metrics:
            return score
        chunks = (data.take(slice(n, n + CPU_CHUNK)) for n in range(0, len(data), CPU_CHUNK))
        with torch.no_grad():
            seen = [(self._forward(params, x).cpu(), y.cpu()) for x, y in chunks]
        found = measured(self._metrics, *map(torch.cat, zip(*seen, strict=True)))
        return replace(score, metrics=found)

    def loss_of(self, params: Params, client: ClientId) -> float:
        """L^i(w): the mean loss of a client's samples."""
        data = self._clients[client]
        return float(self._evaluator.sums(params, data)[0]) / len(data)

    def by_client(self, params: Params) -> dict[ClientId, tuple[float, int]]:
        """Right answers and samples of clients, or of a draw of them, on their own data."""
        right, counts = [], {}
        for client in self._judged:
            data = self._clients[client]
            if len(data) > self._most:
                rows = stream(0, "evaluate", "client", client).permutation(len(data))[: self._most]
                data = ClientData(*data.take(torch.from_numpy(rows)))
            right.append(self._evaluator.sums(params, data)[1])
            counts[client] = len(data)
        hits = torch.stack(right).tolist() if right else []  # one look at the device for all
        return {client: (hit, counts[client]) for client, hit in zip(counts, hits, strict=True)}


class Evaluator:
    """Scores models chunk by chunk, on as many threads as there are forward passes.

    A module that is called with parameters swaps its own for them, so a thread needs a pass of its
    own. Sums are added in the order of the samples, so threads change no result.
    """

    def __init__(self, passes: Sequence[Forward], loss: Loss | None = None) -> None:
        self._loss, self._idle = loss, SimpleQueue[Forward]()
        for one in passes:
            self._idle.put(one)
        self._map: Any = ThreadPoolExecutor(len(passes)).map if len(passes) > 1 else map

    def score(self, params: Params, pieces: Iterable[ClientData]) -> Score:
        """L(w) = Σ_i p^i L^i(w) over all samples, and the accuracy; one piece is held at a time."""
        device = next(iter(params.values())).device
        sums, count = torch.zeros(2, dtype=torch.float64, device=device), 0
        for data in pieces:
            sums += self.sums(params, data)
            count += len(data)
        loss, hits = sums.tolist()  # one look at the device for all chunks
        return Score(loss / count, None if math.isnan(hits) else hits / count)

    def sums(self, params: Params, data: ClientData) -> Tensor:
        """Sum of losses and number of right answers [2], on the device of the parameters."""
        data = data.to(next(iter(params.values())).device)
        layers = sum(value.dim() > 1 for value in params.values())
        few = isinstance(data, Streamed) or (data.y.device.type == "cpu" and layers > 1)
        chunk = min(CHUNK, CPU_CHUNK) if few else CHUNK
        parts = [slice(start, start + chunk) for start in range(0, len(data), chunk)]
        each = map if len(parts) == 1 else self._map
        return torch.stack(list(each(partial(self._sums, params, data), parts))).sum(dim=0)

    @torch.no_grad()
    def _sums(self, params: Params, data: ClientData, part: slice) -> Tensor:
        """Σ_j L_j and number of right answers [2] of a part."""
        (x, y), forward = data.take(part), self._idle.get()
        try:
            scores = forward(params, x)
        finally:
            self._idle.put(forward)
        if self._loss is None:
            # Over few classes PyTorch's own cross-entropy takes five times as long on a CPU.
            losses = scores.logsumexp(dim=1) - scores.gather(1, y.long()[:, None])[:, 0]
            right = (scores.argmax(dim=1) == y).sum()
        else:
            losses, right = self._loss(scores, y), right_answers(scores, y)
        return torch.stack([losses.double().sum(), right.double()])


class Replay(Measure):
    """A measure of models that nobody trains, which knows what would come of it.

    FedAvg's models are the same, whatever the deadline is. What goes by time - lengths of rounds,
    who is slow, events - is simulated; how good models are is known from other stragglers' runs.
    """

    def __init__(self, known: History, measure: Measure) -> None:
        self._last, self._real = known.params, measure
        self._rounds = (one for one in known.rounds if one.train_accuracy is not None)  # measured

    def train(self, params: Params) -> Score:
        """What the next round came to on training data."""
        self._now = next(self._rounds)
        return Score(self._now.train_loss, self._now.train_accuracy)

    def test(self, params: Params, half: str = "test") -> Score | None:
        """The same on held-out data."""
        if half != "test" or self._now.test_accuracy is None:
            return None
        return Score(self._now.test_loss, self._now.test_accuracy, self._now.metrics)

    def by_client(self, params: Params) -> dict[ClientId, tuple[float, int]]:
        """How the last model does: who is slow there may be fast here."""
        home = next(iter(params.values())).device
        return self._real.by_client({name: v.to(home) for name, v in self._last.items()})


def slow_and_worst(
    scores: Mapping[ClientId, tuple[float, int]], slow: Container[ClientId]
) -> tuple[float | None, float | None]:
    """Accuracy on slow clients' samples, and of the worst ceil(n / 10) of n; None: no classes."""
    if any(math.isnan(hits) for hits, _ in scores.values()):
        return None, None
    theirs = [score for client, score in scores.items() if client in slow]
    right, count = (sum(column) for column in zip(*theirs, strict=True)) if theirs else (0.0, 0)
    accuracies = sorted(hits / samples for hits, samples in scores.values())
    worst = accuracies[: -(-len(accuracies) // 10)]
    return right / count if count else None, sum(worst) / len(worst) if worst else None


def draw(of: Mapping[ClientId, ClientData], count: int, by: Generator) -> list[ClientData]:
    """``count`` of all clients' samples, as if drawn from one piece; in one, if shapes agree."""
    sizes = sizes_of(of)
    ends = sizes.counts.cumsum()
    chosen = np.sort(by.choice(int(ends[-1]), size=count, replace=False))
    owners, first = np.unique(np.searchsorted(ends, chosen, side="right"), return_index=True)
    parts = []
    for owner, rows in zip(owners.tolist(), np.split(chosen, first[1:]), strict=True):
        own = torch.from_numpy(rows - (ends[owner] - sizes.counts[owner]))
        parts.append(ClientData(*of[sizes.ids[owner]].take(own)))
    shapes = {str([x.shape[1:] for x in parts_of(part.x).values()]) for part in parts}
    return [pool(parts)] if len(shapes) == 1 else parts


def pool(clients: Iterable[ClientData]) -> ClientData:
    """All clients' samples in one piece."""
    return ClientData(*joined(client.take(slice(None)) for client in clients))
