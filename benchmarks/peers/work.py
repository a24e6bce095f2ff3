"""The work that everybody is given, and the answer that everybody writes: two npz files.

Read by the peers' own interpreters, so it needs NumPy and torch alone. Every sample order is in
the file: then all must end with the same model, which is how the driver knows that they did the
same work.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Weights = list[NDArray[np.float32]]


@dataclass(frozen=True)
class Work:
    """Clients, who trains when and in which order, and the model that training starts from.

    Attributes:
        model: ``logistic`` or ``cnn``.
        x: [n, ...] samples of all clients, one client after another.
        y: [n] their labels.
        sizes: [clients] samples of each.
        cohorts: [rounds, K] who trains.
        orders: for round, client of the cohort and epoch in turn, a permutation of its samples.
        initial: the parameters in the order that ``build_model`` has them.
        epochs: that a client trains.
        batch_size: samples in a step.
        learning_rate: of plain SGD.
    """

    model: str
    x: NDArray[np.float32]
    y: NDArray[np.int64]
    sizes: NDArray[np.int64]
    cohorts: NDArray[np.int64]
    orders: NDArray[np.int32]
    initial: Weights
    epochs: int
    batch_size: int
    learning_rate: float

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return len(self.cohorts)

    @property
    def steps(self) -> int:
        """Local steps of all clients and rounds together."""
        return int(self.epochs * (-(-self.sizes[self.cohorts] // self.batch_size)).sum())

    def client(self, number: int) -> tuple[Tensor, Tensor]:
        """Samples of a client, as views."""
        end = int(self.sizes[: number + 1].sum())
        rows = slice(end - int(self.sizes[number]), end)
        return torch.from_numpy(self.x[rows]), torch.from_numpy(self.y[rows])

    def order(self, round_number: int, client: int) -> Tensor:
        """[epochs, m] which sample comes when; rounds count from 1."""
        flat = self.sizes[self.cohorts].ravel()
        place = list(self.cohorts[round_number - 1]).index(client)
        position = (round_number - 1) * self.cohorts.shape[1] + place
        size = int(self.sizes[client])
        first = self.epochs * int(flat[:position].sum())
        order = self.orders[first : first + self.epochs * size].reshape(self.epochs, size)
        return torch.from_numpy(order.astype(np.int64))

    def write(self, path: Path) -> None:
        """Write everything as plain arrays."""
        arrays: dict[str, Any] = {
            f"initial_{number}": value for number, value in enumerate(self.initial)
        }
        settings = np.array([self.epochs, self.batch_size, self.learning_rate])
        names = ("x", "y", "sizes", "cohorts", "orders")
        arrays |= {name: getattr(self, name) for name in names}
        np.savez(path, **arrays, model=np.array(self.model), settings=settings)

    @classmethod
    def read(cls, path: Path) -> Work:
        """Read what ``write`` wrote; nothing in the file is executed."""
        with np.load(path, allow_pickle=False) as file:
            epochs, batch_size, learning_rate = file["settings"].tolist()
            return cls(
                model=str(file["model"]),
                x=file["x"],
                y=file["y"],
                sizes=file["sizes"],
                cohorts=file["cohorts"],
                orders=file["orders"],
                initial=_numbered(file, "initial"),
                epochs=int(epochs),
                batch_size=int(batch_size),
                learning_rate=learning_rate,
            )


@dataclass(frozen=True)
class Answer:
    """Where training ended, and how long each round took; the first one includes preparation."""

    final: Weights
    round_seconds: tuple[float, ...]

    def write(self, path: Path) -> None:
        """Write everything as plain arrays."""
        arrays: dict[str, Any] = {
            f"final_{number}": value for number, value in enumerate(self.final)
        }
        np.savez(path, round_seconds=np.array(self.round_seconds), **arrays)

    @classmethod
    def read(cls, path: Path) -> Answer:
        """Read what ``write`` wrote."""
        with np.load(path, allow_pickle=False) as file:
            return cls(_numbered(file, "final"), tuple(file["round_seconds"].tolist()))


def _numbered(file: np.lib.npyio.NpzFile, name: str) -> Weights:
    count = sum(key.startswith(f"{name}_") for key in file)
    return [file[f"{name}_{number}"] for number in range(count)]


class Stopwatch:
    """Notes when rounds end."""

    def __init__(self) -> None:
        self._marks = [time.perf_counter()]

    def round_done(self) -> None:
        """A round ends here, and the next begins."""
        self._marks.append(time.perf_counter())

    @property
    def seconds(self) -> tuple[float, ...]:
        """Length of every round so far."""
        return tuple(np.diff(self._marks).tolist())


def build_model(name: str) -> nn.Module:
    """The model of the paper in plain PyTorch, for those who do not have ours."""
    if name == "logistic":
        return nn.Sequential(nn.Flatten(), nn.Linear(60, 10))
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(3136, 512),
        nn.ReLU(),
        nn.Linear(512, 10),
    )


@torch.no_grad()
def set_weights(model: nn.Module, weights: Sequence[NDArray[np.float32]]) -> None:
    """Put weights into a model, in the order of its parameters."""
    for parameter, value in zip(model.parameters(), weights, strict=True):
        parameter.copy_(torch.from_numpy(np.asarray(value)))


def weights_of(model: nn.Module) -> Weights:
    """A copy of a model's parameters, in their order."""
    return [parameter.detach().numpy().copy() for parameter in model.parameters()]


def batches(x: Tensor, y: Tensor, order: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """An epoch without a DataLoader: shuffle once, then cut views."""
    return zip(torch.split(x[order], size), torch.split(y[order], size), strict=True)


def train_client(model: nn.Module, work: Work, round_number: int, client: int) -> None:
    """What a client does, as lean as PyTorch's own modules and optimiser allow."""
    x, y = work.client(client)
    optimizer = torch.optim.SGD(model.parameters(), lr=work.learning_rate)
    for order in work.order(round_number, client):
        for inputs, labels in batches(x, y, order, work.batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
