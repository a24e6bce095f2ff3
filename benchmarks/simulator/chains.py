"""Which chains of layers gain what by the compiled loop: ``python -m benchmarks.simulator.chains``.

Microseconds of one core a client-step, of the plain loop, of clients side by side (up to 50,000
parameters, else one by one), and of the compiled loop: best of turns of all three, for four clients
with five epochs. The floor is the arithmetic at 116 GFLOP/s.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.simulator.__main__ import PEAK_GFLOPS
from benchmarks.simulator.machine import describe
from fedcore.client.executors.blockwise import BlockwiseExecutor
from fedcore.client.executors.by_name import block_size
from fedcore.client.executors.linear import LinearExecutor
from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.client.executors.vectorised import VectorisedExecutor
from fedcore.task import Task
from fedcore.types import Assignment, ClientData, LocalPlan, Phase, TrainingSettings, Way

OUT = Path(__file__).parents[1] / "results" / "chains.json"
CLIENTS, EPOCHS, TURNS = 4, 5, 4
SMALL, MEDIUM, LARGE = (60, 32, 10), (60, 128, 128, 10), (784, 512, 10)
ALL_OF_THEM = {"momentum": 0.9, "weight_decay": 0.01, "clip_norm": 1.0}
# Widths, activation, batch, optimiser
CHAINS: list[tuple[tuple[int, ...], type[nn.Module], int, dict[str, float]]] = [
    ((60, 10), nn.ReLU, 8, {}),
    (SMALL, nn.ReLU, 8, {}),
    (SMALL, nn.Tanh, 8, {}),
    (SMALL, nn.GELU, 8, {}),
    (SMALL, nn.ReLU, 8, ALL_OF_THEM),
    (SMALL, nn.ReLU, 128, {}),
    (MEDIUM, nn.ReLU, 8, {}),
    ((784, 128, 10), nn.ReLU, 8, {}),
    (LARGE, nn.ReLU, 8, {}),
    (LARGE, nn.ReLU, 32, {}),
    (LARGE, nn.ReLU, 128, {}),
]


def network(widths: tuple[int, ...], activation: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


def measure(
    widths: tuple[int, ...], activation: type[nn.Module], batch: int, how: dict[str, float]
) -> dict[str, Any]:
    task, draw = Task(network(widths, activation)), torch.Generator().manual_seed(0)
    products = sum(a * b for a, b in itertools.pairwise(widths))
    samples = batch * max(3, min(60, 10_000_000 // (batch * products)))
    clients = {
        number: ClientData(
            torch.randn(samples, widths[0], generator=draw),
            torch.randint(widths[-1], (samples,), generator=draw),
        )
        for number in range(CLIENTS)
    }
    settings = TrainingSettings(0.01, batch, **how)  # type: ignore[arg-type]
    plan = LocalPlan((Phase(EPOCHS),), Way.FULL)
    jobs = [Assignment(number, plan, 0, 0) for number in clients]
    block = block_size(task, clients[0], batch, torch.device("cpu")) or 1
    ways: dict[str, BlockwiseExecutor] = {
        "plain": SequentialExecutor(task, clients, settings),
        "before": VectorisedExecutor(task, clients, settings, block=min(block, CLIENTS)),
        "ours": LinearExecutor(task, clients, settings),
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(TURNS + 1):  # the first loads what is compiled
        for name, executor in ways.items():
            began = time.process_time()
            answers = executor.run(task.initial_params(), jobs)
            steps = sum(answer.steps for answer in answers)
            best[name] = min(best[name], (time.process_time() - began) / steps)
    flops = 2 * batch * (3 * products - widths[0] * widths[1])
    row = {
        "widths": "-".join(map(str, widths)),
        "activation": activation.__name__ if len(widths) > 2 else "none",
        "batch": batch,
        "rule": "momentum, decay, clipping" if how else "plain SGD",
        "parameters": sum(value.numel() for value in task.initial_params().values()),
        **{f"{name} us": round(1e6 * spent, 2) for name, spent in best.items()},
        "floor us": round(flops / PEAK_GFLOPS["cpu"] / 1e3, 3),
    }
    sys.stderr.write(f"{row}\n")
    return row


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    report = {
        "machine": describe(torch.device("cpu")),
        "chains": [measure(*chain) for chain in CHAINS],
    }
    OUT.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
