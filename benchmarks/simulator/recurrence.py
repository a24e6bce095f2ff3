"""The recurrence of the LSTM on a GPU: plain layers against one launch in clusters of blocks.

    python -m benchmarks.simulator.recurrence [--out FILE]

Microseconds of both launches, captured as a graph, for several clients of the paper's LSTM at
batch 8; a whole training step in milliseconds either way; and how far states and gradients of
either are from float64's, as a share of their norm.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from benchmarks.simulator.check import forms  # noqa: E402
from benchmarks.simulator.convolutions import microseconds  # noqa: E402
from benchmarks.simulator.machine import describe  # noqa: E402
from benchmarks.simulator.workload import WORKLOADS  # noqa: E402
from fedcore.models import char_lstm  # noqa: E402
from fedcore.models.char_lstm import fused  # noqa: E402

CLIENTS = (1, 3, 7, 10, 30)
LENGTH, BATCH, WIDTH, UNITS = 80, 8, 8, 256
WAYS = ("plain", "clusters")
Layers = list[Tensor]


@contextmanager
def by(way: str) -> Iterator[None]:
    """Take that way, whatever fits."""
    with mock.patch.object(char_lstm, "fits", return_value=way == "clusters"):
        yield


def layers_of(clients: int) -> Layers:
    """Sequences, then weights of inputs, of states, and biases, of both layers."""
    shapes = [(LENGTH, BATCH, WIDTH), (4 * UNITS, WIDTH), (4 * UNITS, UNITS)]
    shapes += [(4 * UNITS, UNITS)] * 2 + [(4 * UNITS,)] * 2
    draws = (torch.randn(clients, *shape, device="cuda") for shape in shapes)
    return [(0.06 if place else 1.0) * draw for place, draw in enumerate(draws)]


def pass_of(layers: Layers, stack: Any, slopes: Tensor) -> Layers:
    """Last states, and all gradients."""
    leaves = [value.detach().to(slopes.dtype).requires_grad_() for value in layers]
    last = stack(leaves[0], leaves[1:3], leaves[3:5], leaves[5:])
    return [last.detach(), *torch.autograd.grad(last, leaves, grad_outputs=slopes)]


def times(clients: int) -> Iterator[tuple[str, int]]:
    """Microseconds of the kernels' two directions."""
    gates = torch.randn(2, clients, LENGTH, BATCH, 4 * UNITS, device="cuda")
    states = torch.zeros(2, clients, LENGTH + 1, BATCH, UNITS, device="cuda")
    cells, slopes = torch.zeros_like(states), torch.empty_like(gates)
    hidden = 0.06 * torch.randn(2, clients, 4 * UNITS, UNITS, device="cuda")
    upstream = torch.randn(clients, BATCH, UNITS, device="cuda")
    forward = gates, states, cells, hidden, hidden[1:], clients, LENGTH, BATCH
    backward = gates, cells, upstream, slopes, hidden, hidden[1:], clients, LENGTH, BATCH
    for way, own in (("forward", forward), ("backward", backward)):
        run = fused._kernel(f"lstm_{way}", gates.device)
        yield f"{way} us", round(microseconds(partial(run, *own)))


def measure(clients: int) -> dict[str, Any]:
    row: dict[str, Any] = {"clients": clients, **dict(times(clients))}
    layers, slopes = layers_of(clients), torch.randn(clients, BATCH, UNITS, device="cuda")
    stacks = {"plain": char_lstm.plain_lstm, "clusters": fused.fused_lstm}
    exact = pass_of(layers, char_lstm.plain_lstm, slopes.double())
    workload = dataclasses.replace(WORKLOADS[-1], clients=clients)
    for way in WAYS:
        with by(way):
            found = pass_of(layers, stacks[way], slopes)
            pairs = zip(found, exact, strict=True)
            worst = max(((a - b).norm() / b.norm()).item() for a, b in pairs)
            row[f"{way} error"] = float(f"{worst:.1e}")
            step = forms(workload, torch.device("cuda"), 30)
            row[f"{way} step ms"] = step["own form, captured"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out or ROOT / "benchmarks" / "results" / "recurrence-cuda.json"
    torch.set_num_threads(1)
    content = {"machine": describe(torch.device("cuda")), "rows": [measure(k) for k in CLIENTS]}
    out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
