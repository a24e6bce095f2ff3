"""Measure ours beside the nearest public simulators: ``python -m benchmarks.lab_peers``.

FedAvg and FedBuff on the clients of Synthetic(1, 1), the same job lengths for all, each under its
own virtual clock. Peers are installed in environments of their own under ``.peers``. Everybody in
turn, several times, a process each, on one thread; CPU time counts, and the best turn. Then once
more with evaluation on: whether a weight changes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.lab_peers.work import METHODS, Answer, Clients
from benchmarks.peers.__main__ import install, say
from benchmarks.peers.environments import ROOT, PeerUnavailable, interpreter_of, reason_in
from benchmarks.simulator.machine import describe
from fedcore.config import Experiment
from fedcore.datasets import synthetic
from fedcore.server.method import full_seconds
from fedcore.sim.fleet import fleet_of

RESULTS = Path(__file__).parents[1] / "results"
LONGEST_RUN = 1800.0  # seconds
AT_ONCE, MERGES, EPOCHS, BATCH, LEARNING_RATE = 10, 3, 10, 8, 0.001  # as the paper's preset


@dataclass(frozen=True)
class Contestant:
    """Somebody who simulates; ``peer`` names the environment, None is ours."""

    name: str
    module: str
    peer: str | None = None
    flags: tuple[str, ...] = ()


CONTESTANTS = (
    Contestant("ours", "ours_run"),
    Contestant("flgo", "flgo_run", "flgo"),
    Contestant("flsim", "flsim_run", "flsim"),
    Contestant("appfl", "appfl_run", "appfl"),
    Contestant("appfl, keeping garbage", "appfl_run", "appfl", ("--keep-garbage",)),
)
# What is to be known of a clock or of a method, from each one's source.
REMARKS = {
    ("flgo", "fedavg"): "time in whole ticks, here hundredths of a mean job",
    ("flgo", "fedbuff"): "every tick looks at every client; who answered rests until the merge",
    ("flsim", "fedavg"): "no clock: nobody adds up the time of its rounds",
    ("flsim", "fedbuff"): "draws lengths of jobs, knows no client's speed: ours by a generator of "
    "events; K at work in the mean only",
    ("appfl", "fedbuff"): "counts answers as merges, and divides by all clients: alpha is N / B",
}


def clients_of_synthetic(merges: int = MERGES) -> Clients:
    """Synthetic(1, 1) with the paper's speeds, N(1, 0.25) in samples a second."""
    dataset = synthetic.load()
    held = dataset.clients
    experiment = Experiment(epochs=EPOCHS)
    sizes = {number: len(data) for number, data in held.items()}
    fleet = fleet_of(sizes, experiment, 30.0, 0)
    draw = torch.Generator().manual_seed(0)
    if dataset.test is None:
        raise ValueError("Synthetic must have held-out samples")
    return Clients(
        x=torch.cat([data.x for data in held.values()]).numpy(),
        y=torch.cat([data.y for data in held.values()]).numpy(),
        sizes=np.array(list(sizes.values())),
        seconds=full_seconds(fleet.profiles, EPOCHS),
        test_x=dataset.test.x[:500].numpy(),
        test_y=dataset.test.y[:500].numpy(),
        weight=(0.1 * torch.randn(10, 60, generator=draw)).numpy(),
        bias=np.zeros(10, np.float32),
        at_once=AT_ONCE,
        merges=merges,
        epochs=EPOCHS,
        batch_size=BATCH,
        learning_rate=LEARNING_RATE,
    )


def run(who: Contestant, method: str, path: Path, *, evaluate: bool = False) -> Answer:
    """One run, in a process of its own.

    Raises:
        PeerUnavailable: it failed or took too long.
    """
    python = sys.executable if who.peer is None else str(interpreter_of(who.peer))
    command = [python, "-m", f"benchmarks.lab_peers.{who.module}", str(path), method, *who.flags]
    command += ["--evaluate"] * evaluate
    paths = [str(ROOT), *([os.environ.get("PYTHONPATH", "")] if who.peer is None else [])]
    inherited = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "WANDB_MODE": "disabled",
    }
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_RUN,
            env=inherited,
            cwd=ROOT,
        )
    except subprocess.TimeoutExpired:
        raise PeerUnavailable(f"took longer than {LONGEST_RUN:.0f} s") from None
    if done.returncode:
        raise PeerUnavailable(f"failed: {reason_in(done.stderr)}")
    return Answer(**json.loads(done.stdout.splitlines()[-1]))


@dataclass
class Score:
    """All runs of somebody with one method."""

    turns: list[Answer] = field(default_factory=list)
    evaluated: Answer | None = None
    reason: str = ""


def spent(answer: Answer) -> tuple[float, int, int]:
    """CPU seconds, merges and local steps from the first merge to the last."""
    (begin, before), *_, (end, after) = answer.marks
    return end - begin, len(answer.marks) - 1, after - before


def row(name: str, method: str, score: Score) -> dict[str, Any]:
    """What is written down: the best turn, and whether evaluation changed a weight."""
    told: dict[str, Any] = {"name": name, "method": method}
    if remark := REMARKS.get((name.partition(",")[0], method)):
        told["remark"] = remark
    if score.reason or not score.turns:
        return told | {"not measured": score.reason}
    seconds, merges, steps = min(map(spent, score.turns))
    first, *others = score.turns
    told |= {
        "CPU seconds a merge": float(f"{seconds / merges:.4g}"),
        "CPU microseconds a step": float(f"{1e6 * seconds / steps:.4g}"),
        "every turn": [float(f"{1e6 * t / s:.4g}") for t, _, s in map(spent, score.turns)],
        "merges": merges,
        "steps": steps,
        "virtual seconds": first.virtual_seconds,
        "repeats itself": all(other.weights == first.weights for other in others),
    }
    if score.evaluated is not None:
        apart = np.abs(np.subtract(score.evaluated.weights, first.weights))
        told["weights changed by evaluation"] = int((apart > 0).sum())
        told["largest change by evaluation"] = float(f"{apart.max():.2g}")
    return told


def measure(
    clients: Clients,
    everybody: Sequence[Contestant],
    unavailable: dict[str, str],
    turns: int,
    evaluate: bool = True,
) -> list[dict[str, Any]]:
    """Everybody in turn, so often; then, unless told otherwise, everybody with evaluation on."""
    jobs = [(who, method) for method in METHODS for who in everybody]
    scores = {job: Score(reason=unavailable.get(job[0].peer or "", "")) for job in jobs}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clients.npz"
        clients.write(path)
        for turn in range(turns + evaluate):
            for (who, method), score in scores.items():
                if score.reason:
                    continue
                try:
                    answer = run(who, method, path, evaluate=turn == turns)
                except PeerUnavailable as error:
                    score.reason = str(error)
                    say(f"  {who.name}, {method}: {error}")
                    continue
                if turn == turns:
                    score.evaluated = answer
                    continue
                score.turns.append(answer)
                seconds, _, steps = spent(answer)
                say(f"  turn {turn + 1}, {who.name}, {method}: {1e6 * seconds / steps:.4g} us")
    return [row(who.name, method, score) for (who, method), score in scores.items()]


def merged(known: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """A report with the rows of others that an earlier one holds, in the contestants' order."""
    rows = [*known.get("rows", []), *report["rows"]]
    by_job = {(told["method"], told["name"]): told for told in rows}
    order = [(method, who.name) for method in METHODS for who in CONTESTANTS]
    peers = known.get("peers", {}) | report["peers"]
    return report | {"peers": peers, "rows": [by_job[job] for job in order if job in by_job]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--who", default="", help="one by name; rows of others stay")
    parser.add_argument("--no-evaluation", action="store_true", help="leave the last turn out")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "lab-peers.json")
    options = parser.parse_args()
    begin = time.perf_counter()
    everybody = [who for who in CONTESTANTS if options.who in ("", who.name)]
    versions, unavailable = install(sorted({who.peer for who in everybody if who.peer}))
    clients = clients_of_synthetic()
    report: dict[str, Any] = {
        "machine": describe(torch.device("cpu")),
        "peers": versions,
        "turns": options.turns,
        "clients": len(clients),
        "at once": clients.at_once,
        "steps of a job": round(float(np.mean([clients.steps(c) for c in range(len(clients))])), 1),
        "weights": clients.weight.size + clients.bias.size,
        "rows": measure(clients, everybody, unavailable, options.turns, not options.no_evaluation),
        "load after": round(os.getloadavg()[0], 2),
    }
    report["minutes"] = round((time.perf_counter() - begin) / 60, 1)
    if options.out.exists() and options.who:
        report = merged(json.loads(options.out.read_text()), report)
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    for told in report["rows"]:
        sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
