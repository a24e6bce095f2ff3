"""What choosing a coreset costs, in trained samples per sample it is chosen from.

    python -m benchmarks.selection_price

For ``--selection-price``: CPU time of the choice over CPU time of training, on the plain executor
and one thread; a client of each model, whose coreset is half of its samples.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from benchmarks.simulator.workload import WORKLOADS, clients_of
from fedcore import plugins
from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.coreset.proxies import LAST_LAYER_INPUT, STATIC
from fedcore.task import Task
from fedcore.types import Assignment, CoresetSpec, LocalPlan, Phase, TrainingSettings, Way

OUT = Path(__file__).parent / "results" / "selection-price.json"
REPEATS = 5
BATCH = 8


def price(model: str) -> dict[str, object]:
    """The price for one model: the median of several runs, the first of which compiles."""
    workload = next(w for w in WORKLOADS if w.model == model)
    data = clients_of(workload)[0]
    proxy = STATIC if model == "logistic" else LAST_LAYER_INPUT
    task = Task(plugins.load("model", model).build(data.x[0], 90 if model == "char-lstm" else 10))
    half = CoresetSpec(len(data) // 2, "kmedoids", proxy)
    plan = LocalPlan((Phase(1), Phase(1, half)), Way.CORESET)
    trained, prices = len(data) + half.budget, []
    for number in range(REPEATS + 1):
        executor = SequentialExecutor(task, {0: data}, TrainingSettings(0.01, BATCH))
        began = time.process_time()
        executor.run(task.initial_params(), [Assignment(0, plan, number, 0)])
        spent = time.process_time() - began
        choosing = executor.selection.work
        prices.append((choosing / len(data)) / ((spent - choosing) / trained))
    measured = sorted(prices[1:])
    return {
        "model": model,
        "samples": len(data),
        "proxy": proxy,
        "price": round(measured[REPEATS // 2], 4),
        "range": [round(measured[0], 4), round(measured[-1], 4)],
    }


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    rows = [price(workload.model) for workload in WORKLOADS]
    OUT.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
