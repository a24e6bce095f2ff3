"""Rounds on the wall clock, over real processes: ``python -m benchmarks.deployment``.

The example app (examples/flower_app) on loopback with TLS and node authentication: four
SuperNodes, one four times slower than the others, one with eight times the data, one that slows
down to a third in the middle of the run. Slowness is a pause before every batch, which no clock of
ours is told of. FedCore first, then FedAvg on the same cluster, for a ratio from the same run.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.deployment.cluster import Cluster
from benchmarks.simulator.machine import describe

ROOT = Path(__file__).parents[2]
APP = ROOT / "examples" / "flower_app"
RESULT = ROOT / "benchmarks" / "results" / "deployment.json"
GRACE = 3.0
# Clients of Synthetic(1, 1) by their samples: 136, 140, 1,098 and 153.
NODES = {18: "usual", 15: "4 times slower", 28: "8 times the data", 1: "a third of its speed"}
PAUSE = 0.03


def nodes(rounds: int) -> list[str]:
    pauses = {15: 4 * PAUSE}
    own = [f"partition-id={client} pause={pauses.get(client, PAUSE)}" for client in NODES]
    own[3] += f" slower-from={rounds // 2 + 1}"
    return own


def rounds_of(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "rounds.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def first_contacts(asked: list[set[int]]) -> list[set[int]]:
    """Of every round, those that had been asked before."""
    known: set[int] = set()
    after = []
    for cohort in asked:
        after.append(cohort & known)
        known |= cohort
    return after


def measured(rounds: list[dict[str, Any]], output: str, deadline: float) -> dict[str, Any]:
    """What became of a run's rounds and answers, and of its nodes' time."""
    lengths = [deadline * one["round_time"] for one in rounds]
    told = re.findall(r"round (\d+): .* on time: (.*)", output)
    asked, timely, by_deadline, used = [], [], [], []
    for one, (_, text) in zip(rounds, told, strict=True):
        answered = {c["client"]: c for c in one["clients"] if c["work"]}
        on_time = {number for number, c in answered.items() if c["time"] <= 1 + GRACE / deadline}
        failed = {int(number) for number in re.findall(r"(?:^|; )(\d+) [^;]*", text)}
        asked.append(set(answered) | failed)
        timely.append(on_time)
        by_deadline.append({number for number in on_time if answered[number]["time"] <= 1})
        used += [min(1.0, c["time"]) for c in answered.values()]
    after = first_contacts(asked)
    wanted = sum(len(one) for one in after)
    there = sum(len(one & ok) for one, ok in zip(after, timely, strict=True))
    punctual = sum(len(one & ok) for one, ok in zip(after, by_deadline, strict=True))
    return {
        "rounds": len(rounds),
        "mean round s": round(statistics.mean(lengths), 2),
        "longest round s": round(max(lengths), 2),
        "rounds by the deadline": sum(length <= deadline for length in lengths),
        "rounds by deadline + grace": sum(length <= deadline + GRACE for length in lengths),
        "answers asked for after first contact": wanted,
        "of those by deadline + grace": there,
        "of those by the deadline": punctual,
        "share of the deadline used": round(statistics.mean(used), 3) if used else None,
        "answers wasted": sum(len(one - ok) for one, ok in zip(asked, timely, strict=True)),
        "final accuracy": rounds[-1]["test_accuracy"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--fedavg-rounds", type=int, default=5)
    parser.add_argument("--deadline", type=float, default=25.0)
    parser.add_argument("--out", type=Path, default=RESULT)
    asked = parser.parse_args()
    source = {"PYTHONPATH": str(ROOT / "src")}
    found: dict[str, Any] = {
        "machine": describe(torch.device("cpu")),
        "deadline s": asked.deadline,
        "grace s": GRACE,
        "nodes": dict(zip(nodes(asked.rounds), NODES.values(), strict=True)),
    }
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with Cluster(place, nodes(asked.rounds), environment=source) as cluster:
            for strategy, rounds in (("fedcore", asked.rounds), ("fedavg", asked.fedavg_rounds)):
                out = place / strategy
                settings = {"strategy": strategy, "num_rounds": rounds, "out": str(out)}
                settings |= {"deadline": asked.deadline, "grace": GRACE, "min_nodes": 4}
                run = cluster.run(APP, **settings)
                output = cluster.finish(run, 120 + 4 * rounds * asked.deadline)
                sys.stderr.write(output[-4000:])
                found[strategy] = measured(rounds_of(out), output, asked.deadline)
                sys.stdout.write(f"{strategy}: {json.dumps(found[strategy])}\n")
    means = [found[name]["mean round s"] for name in ("fedavg", "fedcore")]
    found["fedavg / fedcore, mean round"] = round(means[0] / means[1], 2)
    asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
