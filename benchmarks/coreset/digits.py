"""Gradients of a real model: the CNN on MNIST digits after a fifth, two and eight epochs.

Trained gradients are harder than made-up ones: their norms range over six orders of magnitude,
and they come as residuals (dL/dz) and as outer products (the last layer's own gradient).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from fedcore.coreset.medoids.solve import solve
from fedcore.coreset.metric import Metric
from fedcore.coreset.proxies import (
    LAST_LAYER,
    LAST_LAYER_INPUT,
    HeadGradients,
    head_gradients,
    space_of,
)
from fedcore.datasets import mnist
from fedcore.errors import BadData, DatasetUnavailable
from fedcore.models import cnn
from fedcore.sources import idx as _idx
from fedcore.task import Task
from fedcore.types import Params

COUNT = 4_000
CLIENTS = (60, 250, 1_000, 2_000)
STAGES = {"digits 0.2": 0.2, "digits 2": 2.0, "digits 8": 8.0}  # epochs
PROXIES = {"dL/dz": LAST_LAYER_INPUT, "outer": LAST_LAYER}


def images(data_dir: Path | None, count: int = COUNT) -> tuple[Tensor, Tensor] | str:
    """Return standardised digits [count, 1, 28, 28] and labels, or why there are none."""
    try:
        pixels, labels = _idx.read_pool(mnist.SOURCE, data_dir)
    except (BadData, DatasetUnavailable, OSError) as error:
        return f"no MNIST here ({type(error).__name__}); say where by --data"
    order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(0))[:count].numpy()
    chosen = torch.from_numpy(pixels[order]).reshape(count, 1, 28, 28).float() / 255
    return (chosen - chosen.mean()) / chosen.std(), torch.from_numpy(labels[order]).long()


def train_on(
    task: Task, params: Params, x: Tensor, y: Tensor, *, batch: int, rate: float, steps: int
) -> Params:
    """Take so many steps of SGD, epoch after epoch, each in an order of its own."""
    values = {name: value.clone().requires_grad_() for name, value in params.items()}
    generator, order = torch.Generator().manual_seed(1), torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        if len(order) < batch:
            order = torch.randperm(len(x), generator=generator)
        rows, order = order[:batch], order[batch:]
        loss = functional.cross_entropy(task.logits(values, x[rows]), y[rows])
        gradients = torch.autograd.grad(loss, list(values.values()))
        with torch.no_grad():
            for name, gradient in zip(values, gradients, strict=True):
                values[name] -= rate * gradient
    return {name: value.detach() for name, value in values.items()}


def stages(x: Tensor, y: Tensor) -> Iterator[tuple[str, HeadGradients, Tensor]]:
    """Yield a name, the gradients there and the last layer's matrix at each stage."""
    torch.manual_seed(0)
    task = Task(cnn.build(x[0], 10))
    params, done = task.initial_params(), 0
    for name, epochs in STAGES.items():
        steps = int(epochs * len(x)) // 32
        params = train_on(task, params, x, y, batch=32, rate=0.03, steps=steps - done)
        done = steps
        seen = head_gradients(
            task, params, zip(torch.split(x, 256), torch.split(y, 256), strict=True)
        )
        yield name, seen, task.head_weight(params)


def seconds_a_sample(x: Tensor, y: Tensor, batch: int, steps: int = 30) -> float:
    """Seconds that training takes for one sample, on this CPU with the threads torch has."""
    task = Task(cnn.build(x[0], 10))
    params = task.initial_params()
    train_on(task, params, x, y, batch=batch, rate=0.03, steps=3)
    begin = time.process_time()
    train_on(task, params, x, y, batch=batch, rate=0.03, steps=steps)
    return (time.process_time() - begin) / (steps * batch)


def measure(
    data_dir: Path | None, say: Callable[[str], None]
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Return rows on real gradients and on a straggler's time; one with a reason if no data."""
    found = images(data_dir)
    if isinstance(found, str):
        say(found)
        return [{"skipped": found}], [{"skipped": found}]
    rows, shares = [], []
    a_sample = seconds_a_sample(*found, batch=mnist.HYPERPARAMETERS["batch_size"])
    for stage, seen, weight in stages(*found):
        for proxy, name in PROXIES.items():
            space = space_of(name, seen, weight, bias=True)
            rows += [against_exact(space, stage, proxy, share) for share in (0.05, 0.2, 0.5, 0.8)]
            shares += [straggler(seen, weight, stage, proxy, n, a_sample) for n in CLIENTS]
    for row in (*rows, *shares):
        say(str(row))
    return rows, shares


def against_exact(space: Metric, stage: str, proxy: str, share: float) -> dict[str, object]:
    """The sparse path beside FasterPAM on the full matrix, both ours."""
    k = int(share * len(space))
    solve(space, k, path="sparse")
    paths = ("sparse", "exact")
    times: dict[str, list[float]] = {path: [] for path in paths}
    sums: dict[str, list[float]] = {path: [] for path in paths}
    for seed in range(3):
        for path in paths:
            begin = time.process_time()
            answer = solve(space, k, path=path, seed=seed)
            times[path].append(time.process_time() - begin)
            sums[path].append(answer.objective)
    return {
        "stage": stage,
        "proxy": proxy,
        "n": len(space),
        "k/n": share,
        "sparse ms": round(1e3 * statistics.median(times["sparse"]), 1),
        "exact ms": round(1e3 * statistics.median(times["exact"]), 1),
        "objective sparse / exact": round(sum(sums["sparse"]) / sum(sums["exact"]), 5),
    }


def straggler(
    seen: HeadGradients, weight: Tensor, stage: str, proxy: str, count: int, a_sample: float
) -> dict[str, object]:
    """Distances and solve of a client beside its training: one full epoch, then coreset epochs.

    The coreset is a fifth of the data, so training visits n + (E − 1) n / 5 samples.
    """
    part = HeadGradients(seen.residuals[:count], seen.inputs[:count], seen.losses[:count])
    k, times = count // 5, []
    for _ in range(6):  # the first one loads what was compiled
        begin = time.process_time()
        solve(space_of(PROXIES[proxy], part, weight, bias=True), k)
        times.append(time.process_time() - begin)
    training = a_sample * (count + (mnist.HYPERPARAMETERS["epochs"] - 1) * k)
    work = statistics.median(times[1:])
    return {
        "stage": stage,
        "proxy": proxy,
        "n": count,
        "coreset ms": round(1e3 * work, 2),
        "training s": round(training, 2),
        "share %": round(100 * work / training, 3),
        "target %": 1,
    }
