"""Settings of the fused LSTM's kernels, timed: ``python -m benchmarks.simulator.waves``.

Microseconds of all waves of one direction for 1, 4 and 10 clients of the paper's LSTM, captured as
a graph, for every setting; the best of them stand in ``models/char_lstm/fused.py``.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fedcore.models.char_lstm import fused as fused_lstm

LENGTH, BATCH, UNITS, LAYERS = 80, 8, 256, 2
CLIENTS = (1, 4, 10)
REPLAYS = 20
Setting = dict[str, Any]


def settings(direction: str) -> Iterator[Setting]:
    """Units of a program, terms or columns at a time, warps, stages."""
    units, sizes = ((8, 16), (32, 64, 128)) if direction == "forward" else ((16, 32), (64, 128))
    size_name = "DEPTH" if direction == "forward" else "WIDTH"
    for own, size, warps, stages in itertools.product(units, sizes, (2, 4, 8), (2, 3)):
        yield {"UNITS": own, size_name: size, "num_warps": warps, "num_stages": stages}


def waves(direction: str, clients: int, setting: Setting) -> Callable[[], None]:
    """A function that computes all waves of one direction once."""
    from fedcore.models.char_lstm import kernel as lstm_kernel

    device = "cuda" if torch.cuda.is_available() else "cpu"
    blocks = UNITS // setting["UNITS"]
    gates = torch.rand(LAYERS, clients, LENGTH, BATCH, 4 * UNITS, device=device)
    states = torch.zeros(LAYERS, clients, LENGTH + 1, BATCH, UNITS, device=device)
    cells, slopes = torch.zeros_like(states), torch.empty_like(gates)
    weight = torch.randn(LAYERS, clients, 4 * UNITS, UNITS, device=device) / UNITS**0.5
    upstream = torch.randn(clients, BATCH, UNITS, device=device)
    cell_slopes = torch.zeros(LAYERS, clients, BATCH, UNITS, device=device)
    shares = torch.zeros(2, 2, LAYERS, clients, blocks, BATCH, UNITS, device=device)
    if direction == "forward":
        kernel, tensors = lstm_kernel.forward_wave, (gates, states, cells, weight, weight[1:])
    else:
        kernel = lstm_kernel.backward_wave
        tensors = (gates, cells, upstream, slopes, cell_slopes, *shares, weight, weight[1:])
    sizes = {"H": UNITS, "ROWS": fused_lstm.ROWS, "HOW": "tf32x3"}

    def run() -> None:
        for wave in range(LENGTH + LAYERS - 1):
            kernel[(clients, blocks, LAYERS)](*tensors, wave, LENGTH, BATCH, **sizes, **setting)

    return run


def microseconds(run: Callable[[], None]) -> float:
    """Of one replay of the captured function, the best of three turns."""
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    best = float("inf")
    for _ in range(3):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(REPLAYS):
            graph.replay()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - began) / REPLAYS)
    return best * 1e6


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("timing the LSTM's kernels needs a GPU, and PyTorch finds none")
    for direction in ("forward", "backward"):
        for setting in settings(direction):
            try:
                times = [microseconds(waves(direction, k, setting)) for k in CLIENTS]
            except Exception as error:  # too much memory for a program, mostly
                print(direction, setting, str(error).splitlines()[0], flush=True)
                continue
            print(direction, setting, *(f"{spent:.0f}" for spent in times), flush=True)


if __name__ == "__main__":
    main()
