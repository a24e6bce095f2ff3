"""Test and time the GPU paths without a test runner: ``python -m benchmarks.simulator.check``.

1. Every model and strategy over 3 rounds: side by side on the device against the plain loop on
   the CPU; the largest difference of a parameter.
2. Milliseconds of one step of all clients: each form, taken one by one and captured, and where
   the time goes, kernel by kernel.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.simulator.machine import describe
from benchmarks.simulator.workload import (
    BATCH,
    WORKLOADS,
    Workload,
    assignments_of,
    clients_of,
    task_of,
)
from fedcore import plugins
from fedcore.client.executors.by_name import choose_device
from fedcore.client.executors.stacked_model import by_module, form_of
from fedcore.client.executors.steps import Pool, Steps, Tape
from fedcore.config import Experiment
from fedcore.records import RunKey
from fedcore.sim.federation import Federation, federate, federation_from_model
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.stacked import Form
from fedcore.types import ClientData, FederatedDataset, Params, TrainingSettings

SMALL = Experiment(rounds=3, epochs=4, clients_per_round=4, learning_rate=0.1, prox_mu=0.3)
RESULTS = Path(__file__).parents[1] / "results"


def small_federation(model: str) -> Federation:
    draw = torch.Generator().manual_seed(0)

    def a_client(size: int) -> ClientData:
        if model == "cnn":
            # In float32 some unit comes within rounding of ReLU's kink, and its gradient jumps.
            x = torch.randn(size, 1, 8, 8, generator=draw).double()
        elif model == "char-lstm":
            x = torch.randint(3, (size, 4), generator=draw)
        else:
            x = torch.randn(size, 5, generator=draw)
        return ClientData(x, torch.randint(3, (size,), generator=draw))

    clients = {number: a_client(size) for number, size in enumerate((3, 11, 20, 60, 90))}
    dataset = FederatedDataset(clients, a_client(30), 3)
    federation = federation_from_model(dataset, model, 1)
    return federate(dataset, federation.task.model.double()) if model == "cnn" else federation


def final(federation: Federation, strategy: str, executor: str, device: str) -> Params:
    selector = "kmedoids" if federation.proxy == "input" else "kcenter"
    experiment = dataclasses.replace(SMALL, executor=executor, device=device, selector=selector)
    method = build_strategy(strategy, experiment, federation.proxy)
    run = RunKey("check", strategy, 40.0, 0)
    *_, (_, state) = simulate_rounds(build_world(federation, experiment, run, method))
    return state.params


def equality(device: torch.device) -> dict[str, float]:
    differences = {}
    for model in plugins.names("model"):
        federation = small_federation(model)
        for strategy in plugins.names("strategy"):
            plain = final(federation, strategy, "sequential", "cpu")
            ours = final(federation, strategy, "vectorised", device.type)
            worst = max(float((plain[name] - ours[name]).abs().max()) for name in plain)
            differences[f"{model} {strategy}"] = float(f"{worst:.1e}")
            say(f"{model} {strategy}: {worst:.1e}")
    return differences


def milliseconds(steps: Steps, tape: Tape, device: torch.device) -> float:
    best = float("inf")
    for _ in range(4):
        _wait(device)
        begin = time.perf_counter()
        steps.run(tape, None)
        _wait(device)
        best = min(best, (time.perf_counter() - begin) / len(tape.rows))
    return round(best * 1e3, 4)


def forms(workload: Workload, device: torch.device, count: int) -> dict[str, object]:
    clients = clients_of(workload)
    task = task_of(workload, clients)
    pool = Pool(device)
    pool.fill(list(clients.values()))
    samples = workload.samples * workload.clients
    choices: dict[str, Form] = {"own form": form_of(task)}
    if workload.model != "char-lstm":
        choices["vmap"] = by_module(task)
    row: dict[str, object] = {"model": workload.model, "clients": workload.clients}
    for name, form in choices.items():
        for record in (False, True):
            steps = Steps(form, pool, TrainingSettings(0.01, BATCH), record=record)
            steps.start(task.initial_params(), assignments_of(workload))
            shape = (count, steps.width, BATCH)
            rows = torch.randint(samples, shape)
            noted = torch.full_like(rows, samples)  # nowhere
            tape = Tape(torch.stack([rows, noted], dim=1), torch.full(shape, 1 / BATCH))
            kind = "captured" if record else "one by one"
            row[f"{name}, {kind}"] = milliseconds(steps, tape, device)
            if name == "own form" and record:
                row["kernels"] = profile(steps, tape, device)
            del steps
    say(json.dumps(row, indent=1))
    return row


def profile(steps: Steps, tape: Tape, device: torch.device) -> list[str]:
    """The costliest kernels of one step: microseconds, launches, name."""
    if device.type != "cuda":
        return []
    from torch.profiler import ProfilerActivity

    one = Tape(tape.rows[:1], tape.coefficient[:1])
    activities = [ProfilerActivity.CUDA, ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profiled:
        steps.run(one, None)
        _wait(device)
    found = [e for e in profiled.key_averages() if e.self_device_time_total > 0]
    found.sort(key=lambda event: -event.self_device_time_total)
    total = sum(event.self_device_time_total for event in found)
    launches = sum(event.count for event in found)
    lines = [f"{total:.0f} us, {launches} launches in all"]
    return lines + [
        f"{e.self_device_time_total:.0f} us, {e.count}: {e.key[:90]}" for e in found[:12]
    ]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--steps", type=int, default=20, help="steps to time")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    device = choose_device(options.device, "auto")
    torch.set_num_threads(1)  # small steps: on busy cores threads cost more than they bring
    torch.backends.cudnn.allow_tf32 = False  # equality is judged in float32
    report: dict[str, Any] = {"machine": describe(device), "equality": equality(device)}
    report["one step, ms"] = [forms(workload, device, options.steps) for workload in WORKLOADS]
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"simulator-check-{device.type}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    if max(report["equality"].values()) > 1e-4:
        sys.exit("parameters differ by more than 1e-4")


if __name__ == "__main__":
    main()
