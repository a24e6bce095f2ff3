"""The workloads: clients with random samples of the right shape, batch 8."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fedcore import plugins
from fedcore.task import Task
from fedcore.types import Assignment, ClientData, LocalPlan, Phase, Way

BATCH = 8


@dataclass(frozen=True, slots=True)
class Workload:
    """A model, how many clients train it, and what one client's step must at least do."""

    model: str
    clients: int
    samples: int  # of each client
    flops: float  # of one client's step, forward and backward
    launches: int  # of one step of all clients, in the form that the GPU path takes
    target_cpu: float
    target_cuda: float

    epochs: int = 1

    @property
    def client_steps(self) -> int:
        """Steps of all clients together."""
        return self.clients * self.epochs * -(-self.samples // BATCH)


def _linear(inputs: int, outputs: int) -> float:
    return 2.0 * BATCH * inputs * outputs


def _cnn_flops() -> float:
    first, second = _linear(25, 32) * 28 * 28, _linear(800, 64) * 14 * 14
    dense = _linear(3136, 512) + _linear(512, 10)
    return 3 * (first + second + dense) - first  # no gradient with respect to the image


def _lstm_flops() -> float:
    gates = _linear(8, 1024) + 3 * _linear(256, 1024)
    return 3 * (80 * gates + _linear(256, 90))


# A launch count is that of the kernels one captured step holds, read off the code: for the LSTM
# 81 waves in 2 directions, the rest is small.
# The CNN's clients have MNIST's mean of samples and the paper's epochs.
WORKLOADS = (
    Workload("logistic", 100, 400, 3 * _linear(60, 10), 20, 40.0, 200.0, epochs=10),
    Workload("cnn", 100, 69, _cnn_flops(), 70, 1.5, 25.0, epochs=10),
    Workload("char-lstm", 10, 400, _lstm_flops(), 200, 1.0, 20.0),
)


def shorter(workload: Workload) -> Workload:
    """The same clients with five steps each: networks on a CPU, where a step takes its time."""
    return workload if workload.model == "logistic" else replace(workload, samples=40, epochs=1)


def clients_of(workload: Workload) -> dict[int, ClientData]:
    draw = torch.Generator().manual_seed(0)
    classes = 90 if workload.model == "char-lstm" else 10

    def inputs() -> torch.Tensor:
        if workload.model == "char-lstm":
            return torch.randint(90, (workload.samples, 80), generator=draw)
        shape = (60,) if workload.model == "logistic" else (1, 28, 28)
        return torch.randn(workload.samples, *shape, generator=draw)

    return {
        number: ClientData(inputs(), torch.randint(classes, (workload.samples,), generator=draw))
        for number in range(workload.clients)
    }


def task_of(workload: Workload, clients: dict[int, ClientData]) -> Task:
    torch.manual_seed(0)
    classes = 90 if workload.model == "char-lstm" else 10
    return Task(plugins.load("model", workload.model).build(clients[0].x[0], classes))


def assignments_of(workload: Workload) -> list[Assignment]:
    plan = LocalPlan((Phase(workload.epochs),), Way.FULL)
    return [Assignment(number, plan, 0, 0) for number in range(workload.clients)]
