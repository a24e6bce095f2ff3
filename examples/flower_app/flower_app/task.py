"""Model, data, and the training loop: an ordinary one; nothing in it knows of FedCore."""

import time
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from fedcore import plugins
from fedcore.sources.benchmark import find
from fedcore.types import FederatedDataset


def load(benchmark: str, data_dir: str) -> FederatedDataset:
    """All clients' data; a real node reads its own from its own disk."""
    folder = Path(data_dir) if data_dir else None
    return find(benchmark).load(seed=0, data_dir=folder, options={})


def build_model(dataset: FederatedDataset, benchmark: str) -> nn.Module:
    """The model of the benchmark, with the same start everywhere."""
    torch.manual_seed(0)
    name = find(benchmark).hyperparameters("paper").get("model", "logistic")
    first = next(iter(dataset.clients.values()))
    model: nn.Module = plugins.load("model", name).build(first.x[0], dataset.num_classes)
    return model


def loader_of(
    dataset: FederatedDataset, client: int, batch_size: int, pause: float = 0.0
) -> DataLoader[tuple[Tensor, ...]]:
    """One client's samples, shuffled; a ``pause`` before every batch makes a slow node."""
    x, y = dataset.clients[client].take(slice(None))

    def collate(rows: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        time.sleep(pause)
        return tuple(torch.stack(column) for column in zip(*rows, strict=True))

    return DataLoader(TensorDataset(x, y), batch_size, shuffle=True, collate_fn=collate)


def train(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], learning_rate: float) -> None:
    """The loop that everybody has."""
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    loss = nn.CrossEntropyLoss()
    model.train()
    for x, y in batches:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()


@torch.no_grad()
def accuracy(model: nn.Module, dataset: FederatedDataset) -> float:
    """Of the held-out data."""
    assert dataset.test is not None
    x, y = dataset.test.take(slice(None))
    model.eval()
    return float((model(x).argmax(1) == y).float().mean())
