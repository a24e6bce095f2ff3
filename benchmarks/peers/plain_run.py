"""The plain loop: one client after another, averaged by samples.

``--batches loader`` is how the authors' code does it: a fresh DataLoader and optimiser for every
client. ``--batches views`` leaves the DataLoader out, to show what that alone costs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

from benchmarks.peers.work import (
    Answer,
    Stopwatch,
    Work,
    build_model,
    set_weights,
    train_client,
    weights_of,
)


class GivenOrder(Sampler[int]):
    """Gives every epoch the next of the orders at hand, where ``shuffle=True`` would draw one."""

    def __init__(self, orders: Tensor) -> None:
        self._orders = iter(orders.tolist())
        self._size = orders.shape[1]

    def __iter__(self) -> Iterator[int]:
        return iter(next(self._orders))

    def __len__(self) -> int:
        return self._size


def train_with_loader(model: nn.Module, work: Work, round_number: int, client: int) -> None:
    loader = DataLoader(
        TensorDataset(*work.client(client)),
        batch_size=work.batch_size,
        sampler=GivenOrder(work.order(round_number, client)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=work.learning_rate)
    for _ in range(work.epochs):
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("answer", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batches", choices=("loader", "views"), default="loader")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    work = Work.read(options.work)
    train = train_with_loader if options.batches == "loader" else train_client
    model = build_model(work.model)
    current = work.initial
    watch = Stopwatch()
    for number, cohort in enumerate(work.cohorts.tolist(), start=1):
        total = work.sizes[cohort].sum()
        merged = [np.zeros_like(value) for value in current]
        for client in cohort:
            set_weights(model, current)
            train(model, work, number, client)
            share = np.float32(work.sizes[client] / total)
            trained = weights_of(model)
            merged = [sums + share * value for sums, value in zip(merged, trained, strict=True)]
        current = merged
        watch.round_done()
    Answer(current, watch.seconds).write(options.answer)


if __name__ == "__main__":
    main()
