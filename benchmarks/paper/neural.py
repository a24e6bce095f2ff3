"""MNIST and Shakespeare as in the paper's Table 2, with torch and NumPy alone.

    python -m benchmarks.paper.neural --benchmark mnist --data-dir DIR --out OUT [--set rounds=30]

Meant for an accelerator machine that can install nothing; everywhere else ``fedcore compare`` does
the same with tables and pictures. Writes rounds.jsonl and summary.json as that does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from fedcore.cli.grid import run_grid
from fedcore.config import resolve
from fedcore.data import _benchmark
from fedcore.types import RunKey


def value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark", required=True)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE")
    arguments = parser.parse_args()
    chosen = dict(pair.split("=", 1) for pair in arguments.set)
    given = {name: value_of(text) for name, text in chosen.items()}
    experiment = resolve(
        {"benchmark": arguments.benchmark, "data_dir": arguments.data_dir, **given},
        lambda name, preset: _benchmark.find(name).hyperparameters(preset),
    )
    began = time.perf_counter()

    def tell(run: RunKey, done: int) -> None:
        if done % 10 == 0 or done == experiment.rounds:
            elapsed = time.perf_counter() - began
            print(f"{elapsed:7.1f} s {run.strategy} {run.stragglers:g} % round {done}", flush=True)

    content, _ = run_grid(experiment, arguments.out, tell=tell)
    for result in content["results"]:
        print(
            result["stragglers"],
            result["strategy"],
            f"final {result['final_test_accuracy']:.4f}",
            f"mean>=10 {result['mean_test_accuracy_from_round_10'] or float('nan'):.4f}",
            f"loss {result['final_train_loss']}",
            f"round {result['mean_round_time']:.2f} longest {result['max_round_time']:.2f}",
            f"wall {result['wall_seconds']:.0f} s",
        )


if __name__ == "__main__":
    main()
