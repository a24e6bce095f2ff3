"""Client-steps a second, asynchronous beside synchronous: jobs of one version train together.

    python -m benchmarks.stragglers.throughput [--benchmark mnist] [--device cuda] [--data-dir DIR]
        [--seconds 15] [--out FILE]

Of each method, rounds or merges are run for as long as that, after as long to warm up (kernels are
compiled, graphs recorded). Counted are steps that clients took, over the seconds in which the
executor trained and over all seconds; and how many jobs it was given at a time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

from benchmarks.simulator.machine import describe  # noqa: E402
from benchmarks.stragglers.settings import METHODS, experiment_of  # noqa: E402
from fedcore.client.executors.by_name import choose_device  # noqa: E402
from fedcore.records import RunKey  # noqa: E402
from fedcore.sim.federation import federation_from_model  # noqa: E402
from fedcore.sim.world import build_strategy, build_world, simulate_rounds  # noqa: E402
from fedcore.sources.benchmark import find  # noqa: E402

PAIRS = ("fedavg", "fedbuff", "fedcore", "fedcore-buff")


def measure(benchmark: str, name: str, seconds: float, **machine: Any) -> dict[str, Any]:
    """One method for ``seconds`` after as many to warm up."""
    once = {"learning_rate": 0.03, "seed": (0,), "time_budget": 0.0, "rounds": 10**6}
    experiment = experiment_of(benchmark, "paper", name, **once, **machine)
    place = Path(machine["data_dir"]) if machine.get("data_dir") else None
    dataset = find(benchmark).load(seed=experiment.data_seed, data_dir=place, options={})
    federation = federation_from_model(dataset, experiment.model, seed=0)
    there = (federation.proxy, len(dataset.clients), federation.model_bytes)
    strategy = build_strategy(METHODS[name].strategy, experiment, *there)
    run = RunKey(benchmark, METHODS[name].strategy, 30.0, 0)
    world = build_world(federation, experiment, run, strategy)
    plain, calls = world.executor.run, list[tuple[float, int, int]]()

    def timed(*given: Any) -> Any:
        began = time.perf_counter()
        updates = plain(*given)
        taken = time.perf_counter() - began
        calls.append((taken, len(updates), sum(one.steps for one in updates)))
        return updates

    world.executor.run = timed  # type: ignore[assignment,method-assign]
    began, first, merges = time.perf_counter(), None, 0
    with closing(simulate_rounds(world)) as rounds:
        for _ in rounds:
            merges += 1
            passed = time.perf_counter() - began
            if first is None and passed > seconds:
                first, merges, start = len(calls), 0, passed
            if first is not None and passed > start + seconds:
                break
    training, jobs, steps = map(sum, zip(*calls[first:], strict=True))
    return {
        "method": name,
        "merges": merges,
        "jobs": jobs,
        "jobs at a time": jobs / len(calls[first:]),
        "client-steps": steps,
        "seconds": passed - start,
        "seconds of training": training,
        "client-steps a second": steps / (passed - start),
        "of training": steps / training,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark", default="mnist")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data-dir")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    device = choose_device(asked.device, "auto")
    machine = {"device": device.type, "data_dir": asked.data_dir, "threads": 0}
    given = {name: value for name, value in machine.items() if value is not None}
    rows = []
    for name in PAIRS:
        rows.append(measure(asked.benchmark, name, asked.seconds, **given))
        told = {key: round(x, 1) if isinstance(x, float) else x for key, x in rows[-1].items()}
        print(told, flush=True)
    content = {"machine": describe(device), "benchmark": asked.benchmark, "methods": rows}
    out = asked.out or ROOT / "benchmarks" / "results" / f"throughput-{device.type}.json"
    out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
