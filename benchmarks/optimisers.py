"""What a step of logistic regression costs under every optimiser, against the compiled plain one.

    python -m benchmarks.optimisers

CPU time of one core, best of several turns of all ways: the compiled loop, which has no Adam, and
clients side by side. Written to ``results/optimisers.json``.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from fedcore.client.executors.linear import LinearExecutor
from fedcore.client.executors.vectorised import VectorisedExecutor
from fedcore.models.logistic import LinearClassifier
from fedcore.task import Task
from fedcore.types import Assignment, ClientData, LocalPlan, Phase, TrainingSettings, Way

OUT = Path(__file__).parent / "results" / "optimisers.json"
CLIENTS, SAMPLES, FEATURES, CLASSES, EPOCHS, TURNS = 10, 200, 60, 10, 10, 5
HOW: dict[str, dict[str, Any]] = {
    "plain SGD": {},
    "momentum": {"momentum": 0.9},
    "momentum, decay, clipping": {"momentum": 0.9, "weight_decay": 0.01, "clip_norm": 1.0},
    "Adam": {"adam": True},
}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    task, draw = Task(LinearClassifier(FEATURES, CLASSES)), torch.Generator().manual_seed(0)
    clients = {
        client: ClientData(
            torch.randn(SAMPLES, FEATURES, generator=draw),
            torch.randint(CLASSES, (SAMPLES,), generator=draw),
        )
        for client in range(CLIENTS)
    }
    plan = LocalPlan((Phase(EPOCHS),), Way.FULL)
    jobs = [Assignment(client, plan, 0, 0) for client in clients]
    ways: dict[str, LinearExecutor | VectorisedExecutor] = {}
    for name, how in HOW.items():
        settings = TrainingSettings(0.05, 8, **how)
        if not settings.adam:
            ways[f"compiled, {name}"] = LinearExecutor(task, clients, settings)
        ways[f"side by side, {name}"] = VectorisedExecutor(task, clients, settings, block=CLIENTS)
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(TURNS + 1):  # the first compiles
        for name, executor in ways.items():
            began = time.process_time()
            answers = executor.run(task.initial_params(), jobs)
            steps = sum(answer.steps for answer in answers)
            best[name] = min(best[name], (time.process_time() - began) / steps)
    least = best["compiled, plain SGD"]
    rows = [
        {"way": name, "microseconds": round(1e6 * spent, 2), "times": round(spent / least, 1)}
        for name, spent in best.items()
    ]
    OUT.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
