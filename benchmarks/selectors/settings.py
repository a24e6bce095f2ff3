"""What the study trains: a convex client, and a CNN at an early and a late stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from fedcore.client.schedule import Samples, schedule
from fedcore.client.step import Batch, StepRule, step
from fedcore.coreset.proxies import LAST_LAYER_INPUT, STATIC
from fedcore.datasets import mnist, synthetic
from fedcore.errors import DatasetUnavailable
from fedcore.models import cnn
from fedcore.models.logistic import LinearClassifier
from fedcore.seeding import stream
from fedcore.task import Task
from fedcore.types import ClientData, Params

BATCH = 8


@dataclass(frozen=True)
class Setting:
    """A client, a model and the parameters at which its coreset is chosen."""

    name: str
    task: Task
    params: Params
    data: ClientData
    proxy: str
    learning_rate: float
    epochs: int


def train(setting: Setting, params: Params, samples: Samples, epochs: int, seed: int) -> Params:
    """Walk ``epochs`` over ``samples``, as a client does."""
    tape = schedule(samples, epochs, BATCH, stream(seed, "shuffle"))
    rule = StepRule(setting.learning_rate, 0.0, params)
    for index, coefficient in zip(tape.index, tape.coefficient, strict=True):
        real = coefficient > 0
        chosen = torch.from_numpy(index[real])
        batch = Batch(*setting.data.take(chosen), torch.from_numpy(coefficient[real]))
        params, *_ = step(setting.task, params, batch, rule)
    return params


def settings(quick: bool) -> Iterator[Setting]:
    """Synthetic(1, 1)'s largest clients, and MNIST images of all ten digits."""
    client = sorted(synthetic.load(alpha=1, beta=1).clients.values(), key=len)[-3]
    torch.manual_seed(0)
    task = Task(LinearClassifier(60, 10))
    start = Setting("synthetic, start", task, task.initial_params(), client, STATIC, 0.01, 9)
    yield start
    later = train(start, start.params, Samples.everything(len(client)), 3, seed=1)
    yield Setting("synthetic, later", task, later, client, STATIC, 0.01, 9)
    try:
        images = _images(300 if quick else 1000)
    except DatasetUnavailable as error:
        print(f"CNN left out: {error}")
        return
    torch.manual_seed(0)
    task = Task(cnn.build(images.x[0], 10))
    fresh = Setting("CNN, start", task, task.initial_params(), images, LAST_LAYER_INPUT, 0.03, 4)
    everything = Samples.everything(len(images))
    first = train(fresh, fresh.params, everything, 1, seed=1)
    yield Setting("CNN, after 1 epoch", task, first, images, LAST_LAYER_INPUT, 0.03, 4)
    later = train(fresh, first, everything, 1 if quick else 5, seed=2)
    yield Setting("CNN, after 6 epochs", task, later, images, LAST_LAYER_INPUT, 0.03, 4)


def _images(count: int) -> ClientData:
    """Some training images of every digit, from the clients in order."""
    beside = Path(__file__).parents[3] / "shared" / "data"
    data = mnist.load(seed=7992, data_dir=beside if beside.is_dir() else None)
    drawn = [client.take(slice(0, 4)) for client in data.clients.values()]
    x, y = torch.cat([x for x, _ in drawn]), torch.cat([y for _, y in drawn])
    keep = torch.from_numpy(stream(0, "images").permutation(len(y))[:count])
    return ClientData(x[keep].clone(), y[keep].clone())
