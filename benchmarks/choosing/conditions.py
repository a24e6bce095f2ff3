"""What is done to training data before a run; held-out data stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from fedcore.seeding import stream
from fedcore.types import ClientData, FederatedDataset, Generator

TIMES = 5
RATIO = 100.0  # samples of the first class kept, for one of the last
Condition = Callable[[ClientData, int, Generator], ClientData]


def clean(data: ClientData, classes: int, draws: Generator) -> ClientData:
    return data


def noisy(share: float) -> Condition:
    """So many labels, drawn by chance, become one of the other classes, all equally likely."""

    def change(data: ClientData, classes: int, draws: Generator) -> ClientData:
        inputs, labels = data.take(slice(None))
        wrong = torch.from_numpy(draws.random(len(labels)) < share)
        others = torch.from_numpy(draws.integers(1, classes, len(labels)))
        return ClientData(inputs, torch.where(wrong, (labels + others) % classes, labels))

    return change


def repeated(data: ClientData, classes: int, draws: Generator) -> ClientData:
    """The first fifth of the samples, each five times: as many as before."""
    different = -(-len(data) // TIMES)
    return ClientData(*data.take(torch.arange(len(data)) % different))


def imbalanced(data: ClientData, classes: int, draws: Generator) -> ClientData:
    """Of class y the share 100^(-y / (C - 1)), from the first sample of it on, at least one."""
    labels = data.labels.cpu().numpy()
    kept = []
    for label in range(classes):
        own = np.flatnonzero(labels == label)
        kept.append(own[: int(np.ceil(len(own) * RATIO ** (-label / (classes - 1))))])
    return ClientData(*data.take(torch.from_numpy(np.sort(np.concatenate(kept)))))


CONDITIONS: dict[str, tuple[str, Condition]] = {
    "clean": ("clean", clean),
    "noise-20": ("20 % of labels wrong", noisy(0.2)),
    "noise-40": ("40 % of labels wrong", noisy(0.4)),
    "fivefold": ("each sample five times", repeated),
    "imbalance": ("classes 100 to 1", imbalanced),
}


def under(condition: str, dataset: FederatedDataset, seed: int) -> FederatedDataset:
    """The dataset under a condition; chance is the seed's and the client's own."""
    change, classes = CONDITIONS[condition][1], dataset.num_classes
    clients = {
        client: change(data, classes, stream(seed, "condition", condition, client))
        for client, data in dataset.clients.items()
    }
    return replace(dataset, clients=clients)
