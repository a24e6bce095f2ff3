"""The workloads: clients with random samples of the right shape, batch 8."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

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
    unequal: bool = False  # clients of 2/11 to 20/11 of ``samples``, which is then their mean

    @property
    def sizes(self) -> list[int]:
        """Samples of every client."""
        shares = (2 * (n + 1) / (self.clients + 1) for n in range(self.clients))
        return [round(self.samples * share) if self.unequal else self.samples for share in shares]

    @property
    def client_steps(self) -> int:
        """Steps of all clients together."""
        return sum(self.epochs * -(-size // BATCH) for size in self.sizes)


def _linear(inputs: int, outputs: int) -> float:
    return 2.0 * BATCH * inputs * outputs


def _perceptron_flops() -> float:
    first, second = _linear(60, 32), _linear(32, 10)
    return 3 * (first + second) - first  # no gradient with respect to the inputs


def _cnn_flops() -> float:
    first, second = _linear(25, 32) * 28 * 28, _linear(800, 64) * 14 * 14
    dense = _linear(3136, 512) + _linear(512, 10)
    return 3 * (first + second + dense) - first  # no gradient with respect to the image


def _lstm_flops() -> float:
    gates = _linear(8, 1024) + 3 * _linear(256, 1024)
    return 3 * (80 * gates + _linear(256, 90))


# A launch count is that of the kernels one captured step holds, as ``check`` and, of the LSTM,
# ``recurrence`` print it.
# The CNN's clients have MNIST's mean of samples and the paper's epochs.
WORKLOADS = (
    Workload("logistic", 100, 400, 3 * _linear(60, 10), 20, 40.0, 200.0, epochs=10),
    Workload("perceptron", 10, 440, _perceptron_flops(), 40, 15.0, 15.0, epochs=10, unequal=True),
    Workload("cnn", 100, 69, _cnn_flops(), 70, 1.5, 25.0, epochs=10),
    Workload("char-lstm", 10, 400, _lstm_flops(), 54, 1.0, 20.0),
)


def shorter(workload: Workload) -> Workload:
    """The same clients with five steps each: networks on a CPU, where a step takes its time."""
    small = workload.model in ("logistic", "perceptron")
    return workload if small else replace(workload, samples=40, epochs=1)


def clients_of(workload: Workload) -> dict[int, ClientData]:
    draw = torch.Generator().manual_seed(0)
    classes = 90 if workload.model == "char-lstm" else 10

    def inputs(size: int) -> torch.Tensor:
        if workload.model == "char-lstm":
            return torch.randint(90, (size, 80), generator=draw)
        shape = (1, 28, 28) if workload.model == "cnn" else (60,)
        return torch.randn(size, *shape, generator=draw)

    return {
        number: ClientData(inputs(size), torch.randint(classes, (size,), generator=draw))
        for number, size in enumerate(workload.sizes)
    }


def perceptron(features: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, classes))


def task_of(workload: Workload, clients: dict[int, ClientData]) -> Task:
    torch.manual_seed(0)
    classes = 90 if workload.model == "char-lstm" else 10
    if workload.model == "perceptron":
        return Task(perceptron(60, classes))
    return Task(plugins.load("model", workload.model).build(clients[0].x[0], classes))


def assignments_of(workload: Workload) -> list[Assignment]:
    plan = LocalPlan((Phase(workload.epochs),), Way.FULL)
    return [Assignment(number, plan, 0, 0) for number in range(workload.clients)]
