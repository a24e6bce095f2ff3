"""What the LSTM's step is made of on one core: ``python -m benchmarks.simulator.lstm_products``.

Core time, best of many turns, of a step by the library's LSTM and by our compiled layers, and of
the single products that both consist of, by the library and by our tiles: per time step [8, 256]
with W_hh, there and back, with weights packed for it; and over all 80 time steps a weight gradient.
Two layers take 9 times 80 of the first kind, or as many in large ones; gates come on top. Also
page faults: the library's step with freed memory given back and kept, and ours with both.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.simulator.machine import describe
from benchmarks.simulator.workload import BATCH, WORKLOADS
from fedcore.client.executors.memory import keep_freed_memory
from fedcore.models.char_lstm import UNITS, CharacterLstm
from fedcore.models.char_lstm.compiled_lstm import compiled_lstm
from fedcore.models.char_lstm.lstm_tile import (
    pack_blocks,
    pack_panels,
    pack_turned,
    times_panels,
    turned_times,
)
from fedcore.task import sample_losses

RESULT = Path(__file__).parents[1] / "results" / "lstm-products-cpu.json"
LENGTH = 80
TURNS = 60  # others use the machine as well: the best turn is the quiet one
PARTS = 9  # of a step: 3 weight matrices, there, back, and their gradients, over all time steps


def faults_of(function: Callable[[], object]) -> float:
    """Page faults of a turn, in the mean."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(TURNS):
        function()
    return round((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / TURNS, 1)


def steps() -> dict[str, Callable[[], object]]:
    """A step's gradients, by the library and by our layers."""
    torch.manual_seed(0)
    model = CharacterLstm(90)
    weights = dict(model.named_parameters())
    stack = {name: value.detach()[None].requires_grad_() for name, value in weights.items()}
    x, y = torch.randint(90, (BATCH, LENGTH)), torch.randint(90, (BATCH,))

    def library() -> object:
        return torch.autograd.grad(sample_losses(model(x), y).mean(), list(weights.values()))

    def ours() -> object:
        scores, _ = compiled_lstm(stack, x[None], None)
        return torch.autograd.grad(sample_losses(scores[0], y).mean(), list(stack.values()))

    return {"library, both ways": library, "ours, both ways": ours}


def room(*shape: int) -> np.ndarray:
    return torch.randn(*shape).numpy()


def products() -> dict[str, tuple[Callable[[], object], int, float]]:
    """What to run, how often in a turn, and its floating-point operations."""
    rows = LENGTH * BATCH
    weight = torch.randn(4 * UNITS, UNITS)
    pack = torch.ops.mkldnn._reorder_linear_weight
    there, back = pack(weight, BATCH), pack(weight.t().contiguous(), BATCH)
    packed = torch.ops.mkldnn._linear_pointwise
    state, slope = torch.randn(BATCH, UNITS), torch.randn(BATCH, 4 * UNITS)
    states, slopes = torch.randn(rows, UNITS), torch.randn(rows, 4 * UNITS)
    our_there, our_back = room(4 * UNITS // 32, UNITS, 32), room(UNITS // 32, 4 * UNITS, 32)
    pack_turned(weight.numpy(), our_there)
    pack_panels(weight.numpy(), our_back)
    blocks, gradient = room(4 * UNITS // 8, rows, 8), room(4 * UNITS, UNITS)
    pack_blocks(slopes.numpy(), 0, blocks)
    gates, states_out, panel = room(BATCH, 4 * UNITS), room(BATCH, UNITS), room(rows, 32)
    one = 2.0 * BATCH * UNITS * 4 * UNITS

    return {
        "library, recurrence, there": (
            lambda: packed(state, there, None, "none", [], ""), 20, one,
        ),
        "library, recurrence, back": (lambda: packed(slope, back, None, "none", [], ""), 20, one),
        "library, weight gradient": (lambda: slopes.t() @ states, 1, LENGTH * one),
        "ours, recurrence, there": (
            lambda: times_panels(state.numpy(), our_there, gates), 20, one,
        ),
        "ours, recurrence, back": (
            lambda: times_panels(slope.numpy(), our_back, states_out), 20, one,
        ),
        "ours, weight gradient": (
            lambda: turned_times(blocks, states.numpy(), gradient), 1, LENGTH * one,
        ),
        # The same 32 columns over and over: what a core can do
        "ours, one panel": (
            lambda: times_panels(states.numpy(), our_there[:1], panel), 5, LENGTH * one / 32,
        ),
    }  # fmt: skip


def best_of(
    cases: dict[str, tuple[Callable[[], object], int, float]],
) -> dict[str, dict[str, float]]:
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(TURNS):
        for name, (function, count, _) in cases.items():
            began = time.thread_time()
            for _ in range(count):
                function()
            best[name] = min(best[name], (time.thread_time() - began) / count)
    return {
        name: {
            "ms": round(1e3 * seconds, 4),
            "GFLOP/s": round(cases[name][2] / seconds / 1e9, 1),
        }
        for name, seconds in best.items()
    }


def whole_steps() -> dict[str, dict[str, float]]:
    flops = next(w.flops for w in WORKLOADS if w.model == "char-lstm")
    both = steps()
    found = best_of({name: (function, 1, flops) for name, function in both.items()})
    for name, function in both.items():
        found[name]["page faults"] = faults_of(function)
    return found


def main() -> None:
    torch.set_num_threads(1)
    fresh = whole_steps()
    keep_freed_memory()
    kept, parts = whole_steps(), best_of(products())
    report = {
        "machine": describe(torch.device("cpu")),
        "steps, freed memory given back": fresh,
        "steps, freed memory kept": kept,
        "products": parts,
        "all products of a step by our tiles, ms": round(
            PARTS * parts["ours, weight gradient"]["ms"], 2
        ),
    }
    RESULT.write_text(json.dumps(report, indent=1) + "\n")
    sys.stdout.write(RESULT.read_text())


if __name__ == "__main__":
    main()
