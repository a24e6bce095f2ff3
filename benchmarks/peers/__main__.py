"""Measure ours beside its peers: ``python -m benchmarks.peers [--data-dir DIR]``.

FedAvg with batches of 8 on Synthetic(1, 1) and MNIST: the same clients, sample orders and initial
model for all, everybody in turn, several times. Peers are installed in environments of their own
under ``.peers``; one that cannot be installed or that fails is reported, and the rest goes on. A
ratio is printed only for those whose final model is the plain loop's.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.peers import compare, contestants, environments, workloads
from benchmarks.peers.work import Work
from benchmarks.simulator.machine import describe

RESULTS = Path(__file__).parents[1] / "results"
PEERS = ("flower", "pfl")


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def install(peers: Sequence[str]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Versions of the peers that are there, and why the others are not."""
    versions, unavailable = {}, {}
    for peer in peers:
        say(f"{peer}: installing, unless it is there (a minute or two) ...")
        try:
            versions[peer] = environments.ensure(peer)
        except environments.PeerUnavailable as error:
            unavailable[peer] = str(error)
            say(f"{peer} {error}")
    return versions, unavailable


def measure(
    name: str, work: Work, source: str, unavailable: dict[str, str], turns: int
) -> dict[str, Any]:
    say(f"{name}: {work.steps} steps in {work.rounds} rounds")
    everybody = contestants.contestants(os.cpu_count() or 1)
    # Ray keeps sockets below this folder, whose paths must be short.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        work.write(folder / "work.npz")
        scores = compare.take_turns(everybody, unavailable, folder, turns, contestants.run, say)
    return {
        "name": name,
        "data": source,
        "model": work.model,
        "clients": len(work.sizes),
        "clients per round": work.cohorts.shape[1],
        "rounds": work.rounds,
        "epochs": work.epochs,
        "batch": work.batch_size,
        "steps per round": round(work.steps / work.rounds),
        "contestants": compare.rows(scores, work.initial),
    }


def table(report: dict[str, Any]) -> str:
    head = ("workload", "who", "variant", "s a round", "times ours")
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for workload in report["workloads"]:
        for row in workload["contestants"]:
            ratio = row.get("times ours", row.get("no ratio", row.get("not measured")))
            seconds = row.get("seconds per round", "")
            cells = (workload["name"], row["name"], row.get("variant", ""), seconds, ratio)
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="where MNIST is; else $FEDCORE_DATA")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "peers.json")
    options = parser.parse_args()
    begin = time.perf_counter()
    versions, unavailable = install(PEERS)
    report: dict[str, Any] = {
        "machine": describe(torch.device("cpu")),
        "peers": versions,
        "turns": options.turns,
        "workloads": [
            measure(name, *work, unavailable, options.turns)
            for name, work in (
                ("synthetic-1-1", workloads.synthetic_work()),
                ("mnist", workloads.mnist_work(options.data_dir)),
            )
        ],
        "load after": round(os.getloadavg()[0], 2),
    }
    report["minutes"] = round((time.perf_counter() - begin) / 60, 1)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    sys.stdout.write(table(report) + "\n")


if __name__ == "__main__":
    main()
