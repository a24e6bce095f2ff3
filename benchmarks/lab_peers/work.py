"""The clients that everybody gets, as plain arrays, and the answer that everybody prints.

Imported in environments that do not have ours: NumPy and PyTorch alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

METHODS = ("fedavg", "fedbuff")


@dataclass(frozen=True)
class Clients:
    """Samples, speeds, initial model and settings.

    Attributes:
        x: [n, 60] samples of all clients, one client after another.
        y: [n] their labels.
        sizes: [clients] samples of each.
        seconds: [clients] that a job takes each of them on the virtual clock.
        test_x: held-out samples, for runs that evaluate.
        test_y: their labels.
        weight: [10, 60] of the initial model.
        bias: [10] of it.
        at_once: clients K of a round, clients at work at once, and answers of a buffer.
        merges: how many there are; the first is not timed.
        epochs: that a job has.
        batch_size: samples in a step.
        learning_rate: of plain SGD.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    sizes: NDArray[np.int64]
    seconds: NDArray[np.float64]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64]
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    at_once: int
    merges: int
    epochs: int
    batch_size: int
    learning_rate: float

    def __len__(self) -> int:
        return len(self.sizes)

    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        """Every client's samples and labels."""
        sizes = self.sizes.tolist()
        x, y = torch.from_numpy(self.x), torch.from_numpy(self.y)
        return list(zip(x.split(sizes), y.split(sizes), strict=True))

    def test(self) -> tuple[Tensor, Tensor]:
        """Held-out samples and labels."""
        return torch.from_numpy(self.test_x), torch.from_numpy(self.test_y)

    def steps(self, client: int) -> int:
        """Local steps of a job: E ceil(m / B)."""
        return self.epochs * -(-int(self.sizes[client]) // self.batch_size)

    @torch.no_grad()
    def start(self, layer: nn.Linear) -> None:
        """Put the initial model into a layer."""
        layer.weight.copy_(torch.from_numpy(self.weight))
        layer.bias.copy_(torch.from_numpy(self.bias))

    def write(self, path: Path) -> None:
        """Write everything as plain arrays."""
        arrays: dict[str, Any] = vars(self)
        np.savez(path, **arrays)

    @classmethod
    def read(cls, path: Path) -> Clients:
        """Read what ``write`` wrote; nothing in the file is executed."""
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file}
        return cls(**{n: value if value.ndim else value.item() for n, value in arrays.items()})


class Laps:
    """Notes at every merge how much CPU time and how many local steps there were so far."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._steps = 0
        self.marks: list[tuple[float, int]] = []

    def trained(self, client: int) -> None:
        """A client did a job."""
        self._steps += self._clients.steps(client)

    def merged(self) -> None:
        """The server merged."""
        self.marks.append((time.process_time(), self._steps))


@dataclass(frozen=True)
class Answer:
    """CPU seconds and steps at every merge, the virtual time of the last, and where it ended."""

    marks: list[tuple[float, int]]
    virtual_seconds: float | None
    weights: list[float]


Simulate = Callable[[Clients, argparse.Namespace, Laps], tuple[float | None, nn.Linear]]


def run(simulate: Simulate, *flags: str) -> None:
    """The command of everybody: simulate, and print the answer as the last line.

    Args:
        simulate: gives the virtual time at the end and the layer that was trained.
        flags: further switches that it knows, such as ``--keep-garbage``.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("clients", type=Path)
    parser.add_argument("method", choices=METHODS)
    for flag in ("--evaluate", *flags):
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    clients = Clients.read(options.clients)
    laps = Laps(clients)
    virtual, layer = simulate(clients, options, laps)
    final = [layer.weight.detach().flatten(), layer.bias.detach()]
    answer = Answer(laps.marks, virtual, torch.cat(final).tolist())
    sys.stdout.write("\n" + json.dumps(vars(answer)) + "\n")
