"""Measure the simulator: ``python -m benchmarks.simulator [--device cuda] [--quick]``.

    python -m benchmarks.simulator --device cpu --add perceptron    one row more, or renewed

Client-steps per second of the plain loop (one client after another, on a CPU at its best number
of threads) and of what ``--executor auto`` takes, on the same clients, in one run, a process for
each model. The best of several turns counts: others may use the machine as well. The two must agree
on the parameters.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

from benchmarks.simulator.machine import describe
from benchmarks.simulator.workload import (
    BATCH,
    WORKLOADS,
    Workload,
    assignments_of,
    clients_of,
    shorter,
    task_of,
)
from fedcore.client.executors.by_name import choose_device, choose_executor
from fedcore.types import Executor, LocalUpdate, Params, TrainingSettings

MODELS = [workload.model for workload in WORKLOADS]
RESULTS = Path(__file__).parents[1] / "results"
# float32, of one core (16 lanes, a product and a sum, 3.6 GHz) and of one H200: the floor
PEAK_GFLOPS = {"cpu": 116.0, "cuda": 60_000.0}
SECONDS = 1.0  # of the plain loop, in each turn
LAUNCH_MICROSECONDS = 2.0  # of a kernel inside a graph


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def page_faults() -> int:
    """Of this process so far: pages of memory that the system had to hand out."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


Spent = tuple[float, float, float]  # seconds, page faults and seconds of cores per client-step


def spent_by(executor: Executor, params: Params, workload: Workload) -> Spent:
    """Per client-step, all clients together."""
    begin, faults, cores = time.perf_counter(), page_faults(), time.process_time()
    wait_for(executor.run(params, assignments_of(workload)))
    spent, steps = time.perf_counter() - begin, workload.client_steps
    return spent / steps, (page_faults() - faults) / steps, (time.process_time() - cores) / steps


def spent_plainly(executor: Executor, params: Params, workload: Workload) -> Spent:
    """The same of the plain loop, which takes clients in turn: some of them suffice."""
    begin, spent, done, faults = time.perf_counter(), 0.0, 0, page_faults()
    cores = time.process_time()
    for assignment in assignments_of(workload):
        answers = executor.run(params, [assignment])
        wait_for(answers)
        spent, done = time.perf_counter() - begin, done + answers[0].steps
        if spent > SECONDS:
            break
    return spent / done, (page_faults() - faults) / done, (time.process_time() - cores) / done


def wait_for(updates: list[LocalUpdate]) -> None:
    float(next(iter(updates[-1].params.values())).sum())


def largest_difference(one: Executor, other: Executor, params: Params, workload: Workload) -> float:
    some = assignments_of(workload)[:3]
    pairs = zip(one.run(params, some), other.run(params, some), strict=True)
    return max(
        float((left.params[n] - right.params[n]).abs().max())
        for left, right in pairs
        for n in params
    )


def compare(workload: Workload, device: torch.device, turns: int) -> dict[str, object]:
    workload = shorter(workload) if device.type == "cpu" else workload
    clients = clients_of(workload)
    task = task_of(workload, clients)
    settings = TrainingSettings(0.01, BATCH)
    params = {name: value.to(device) for name, value in task.initial_params().items()}
    plain = choose_executor("sequential", task, clients, settings, threads=1, device=device)
    cores = os.cpu_count() or 1
    thread_counts = (1, cores) if device.type == "cpu" else (1,)

    def time_theirs(best: dict[int, Spent]) -> None:
        for count in thread_counts:
            torch.set_num_threads(count)
            measured = spent_plainly(plain, params, workload)
            best[count] = min(best.get(count, measured), measured)
        torch.set_num_threads(cores)

    # What ours asks of the process (client/executors/by_name.py) helps the plain loop too. So that
    # goes first, as it runs by itself, and once more in turns with ours; the ratio is to itself.
    alone: dict[int, Spent] = {}
    beside: dict[int, Spent] = {}
    for _ in range(turns):
        time_theirs(alone)
    ours = choose_executor("auto", task, clients, settings, threads=0, device=device)
    torch.set_num_threads(1)
    difference = largest_difference(plain, ours, params, workload)
    torch.set_num_threads(cores)
    spent_by(ours, params, workload)
    best, faults, cores_spent = float("inf"), 0.0, 0.0
    for _ in range(turns):
        time_theirs(beside)
        measured = spent_by(ours, params, workload)
        best, faults, cores_spent = min((best, faults, cores_spent), measured)
    count, (eager, eager_faults, eager_cores) = min(alone.items(), key=lambda item: item[1])
    parallel = cores if device.type == "cpu" else 1
    floor = workload.flops / (PEAK_GFLOPS[device.type] * 1e9 * parallel)
    if device.type == "cuda":
        floor += workload.launches * LAUNCH_MICROSECONDS * 1e-6 / workload.clients
    target = workload.target_cpu if device.type == "cpu" else workload.target_cuda
    row: dict[str, object] = {
        "model": workload.model,
        "clients": workload.clients,
        "executor": type(ours).__name__,
        "plain ms": round(eager * 1e3, 4),
        "plain threads": count,
        "plain ms, in turns with ours": round(min(beside.values())[0] * 1e3, 4),
        "ours ms": round(best * 1e3, 5),
        "ms of cores, plain and ours": [round(eager_cores * 1e3, 4), round(cores_spent * 1e3, 5)],
        "page faults a step, plain and ours": [round(eager_faults), round(faults)],
        "client-steps/s": round(1 / best),
        "times faster": round(eager / best, 2),
        "target": target,
        "MFLOP": round(workload.flops / 1e6, 2),
        "launches": workload.launches if device.type == "cuda" else 0,
        "floor ms": round(floor * 1e3, 5),
        "largest difference": float(f"{difference:.1e}"),
    }
    say(str(row))
    return row


def table(rows: list[dict[str, object]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    lines += ["| " + " | ".join(str(row.get(n, "")) for n in names) + " |" for row in rows]
    return "\n".join(lines)


def in_own_process(model: str, *options: str) -> dict[str, object]:
    """A model's row, measured where no other model has been."""
    command = [sys.executable, "-m", "benchmarks.simulator", *options, "--model", model]
    row: dict[str, object] = json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--quick", action="store_true", help="fewer turns, for a first look")
    parser.add_argument("--model", choices=MODELS, help="one model, its row as JSON")
    parser.add_argument("--add", choices=MODELS, help="one model, its row into the results")
    options = parser.parse_args()
    device = choose_device(options.device, "auto")
    # Equality is judged in float32: by default PyTorch convolves in TF32 on a GPU.
    torch.backends.cudnn.allow_tf32 = False
    if options.model:
        workload = WORKLOADS[MODELS.index(options.model)]
        json.dump(compare(workload, device, 2 if options.quick else 5), sys.stdout)
        return
    if options.add:
        path = RESULTS / f"simulator-{device.type}.json"
        report = json.loads(path.read_text())
        row = in_own_process(options.add, "--device", device.type)
        row["load before"] = describe(device)["load before"]
        rows = {row["model"]: row for row in [*report["speed"], row]}
        report["speed"] = [rows[model] for model in MODELS if model in rows]
        path.write_text(json.dumps(report, indent=1) + "\n")
        return
    report = {
        "machine": describe(device),
        "batch": BATCH,
        "speed": [in_own_process(model, *sys.argv[1:]) for model in MODELS],
    }
    RESULTS.mkdir(exist_ok=True)
    name = f"simulator-{device.type}{'-quick' if options.quick else ''}.json"
    (RESULTS / name).write_text(json.dumps(report, indent=1) + "\n")
    sys.stdout.write(table(report["speed"]) + "\n")


if __name__ == "__main__":
    main()
