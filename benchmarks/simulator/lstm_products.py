"""What the LSTM's step is made of on one core: ``python -m benchmarks.simulator.lstm_products``.

Core time, best of many turns, of the library's LSTM and of the single products that a layer of our
own would consist of: per time step [8, 256] with W_hh, there and back, with weights packed for it;
and over all 80 time steps the input's part, its gradient, and a weight gradient. Two layers take
320 of the first kind and five of the second; gates come on top. All with freed memory kept, as
``--executor auto`` keeps it; the library's LSTM also without.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.simulator.machine import describe
from benchmarks.simulator.workload import BATCH, WORKLOADS
from fedcore.local.memory import keep_freed_memory
from fedcore.models.char_lstm import UNITS, CharacterLstm
from fedcore.task import sample_losses

RESULT = Path(__file__).parents[1] / "results" / "lstm-products-cpu.json"
LENGTH = 80
TURNS = 60  # others use the machine as well: the best turn is the quiet one
RECURRENT = 2 * LENGTH  # products per direction, two layers


def measured() -> dict[str, dict[str, float]]:
    torch.manual_seed(0)
    model = CharacterLstm(90)
    weights = list(model.parameters())
    x, y = torch.randint(90, (BATCH, LENGTH)), torch.randint(90, (BATCH,))
    state, slope = torch.randn(BATCH, UNITS), torch.randn(BATCH, 4 * UNITS)
    states, slopes = torch.randn(LENGTH * BATCH, UNITS), torch.randn(LENGTH * BATCH, 4 * UNITS)
    weight = torch.randn(4 * UNITS, UNITS)
    pack = torch.ops.mkldnn._reorder_linear_weight
    there, back = pack(weight, BATCH), pack(weight.t().contiguous(), BATCH)
    packed = torch.ops.mkldnn._linear_pointwise

    def both_ways() -> None:
        torch.autograd.grad(sample_losses(model(x), y).mean(), weights)

    one = 2.0 * BATCH * UNITS * 4 * UNITS
    step = next(w.flops for w in WORKLOADS if w.model == "char-lstm")
    # What to run, how often in a turn, and its floating-point operations
    cases: dict[str, tuple[Callable[[], object], int, float]] = {
        "library, both ways": (both_ways, 1, step),
        "library, forward": (lambda: model(x), 1, step / 3),
        "recurrence, there": (lambda: packed(state, there, None, "none", [], ""), 20, one),
        "recurrence, back": (lambda: packed(slope, back, None, "none", [], ""), 20, one),
        "input's part": (lambda: states @ weight.t(), 1, LENGTH * one),
        "input's gradient": (lambda: slopes @ weight, 1, LENGTH * one),
        "weight gradient": (lambda: slopes.t() @ states, 1, LENGTH * one),
    }
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


def main() -> None:
    torch.set_num_threads(1)
    fresh = measured()["library, both ways"]
    keep_freed_memory()
    found = measured()
    loops = RECURRENT * (found["recurrence, there"]["ms"] + found["recurrence, back"]["ms"])
    large = found["input's part"]["ms"] + found["input's gradient"]["ms"]
    large += 3 * found["weight gradient"]["ms"]
    report = {
        "machine": describe(torch.device("cpu")),
        "library, both ways, freed memory given back": fresh,
        "parts": found,
        "all products of a step, ms": round(loops + large, 2),
    }
    RESULT.write_text(json.dumps(report, indent=1) + "\n")
    sys.stdout.write(RESULT.read_text())


if __name__ == "__main__":
    main()
