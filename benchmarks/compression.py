"""Bytes and time to 80 % of Synthetic(1, 1) where links are slow: what compressed answers gain.

    python -m benchmarks.compression

Links carry a model down at once; sending it back takes ``SEND`` times the deadline at 30 %
stragglers of compute alone. Deadlines are the percentile's, links included. About a minute.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.deadlines.runs import federation_of, tau30
from benchmarks.deadlines.settings import experiment_of
from benchmarks.stragglers.__main__ import nothing_of_training_data
from fedcore.compression import upward_share
from fedcore.records import RunKey
from fedcore.sim.measure import Measure
from fedcore.sim.world import build_strategy, build_world, simulate_rounds

OUT = Path(__file__).parent / "results" / "compression.json"
BENCHMARK, TARGET, MOST = "synthetic-1-1", 0.80, 400
WAYS = ("none", "8bit", "topk:0.1", "topk:0.1+8bit", "topk:0.01")
STRATEGIES, SEEDS, SEND = ("fedavg", "tempo"), (0, 1, 2), 10.0


def reach(strategy: str, compress: str, seed: int) -> dict[str, Any]:
    """One run, until it has the target or its rounds are over."""
    federation = federation_of(BENCHMARK, seed, None)
    unit, size = tau30(BENCHMARK, seed, federation), federation.model_bytes
    links = {"upload": size / (SEND * unit), "compress": compress, "rounds": MOST}
    experiment = experiment_of(BENCHMARK, seed, strategy, **links)
    there = (federation.proxy, len(federation.dataset.clients), size)
    run = RunKey(BENCHMARK, strategy, 30.0, seed)
    passed, sent, reached = 0.0, 0, None
    with mock.patch.object(Measure, "train", nothing_of_training_data):
        world = build_world(
            federation, experiment, run, build_strategy(strategy, experiment, *there)
        )
        with closing(simulate_rounds(world)) as rounds:
            for record, _ in rounds:
                passed += record.seconds
                sent += sum(event.get("bytes_up", 0) for event in record.events)
                if (record.test_accuracy or 0.0) >= TARGET:
                    reached = passed / unit
                    break
    number = record.number
    answer = round(size * upward_share(compress, size))
    return {"answer": answer, "rounds": number, "sent": sent, "reached": reached}


def measured() -> dict[str, Any]:
    """All runs."""
    runs = []
    for strategy in STRATEGIES:
        for way in WAYS:
            for seed in SEEDS:
                found = reach(strategy, way, seed)
                runs.append({"strategy": strategy, "compress": way, "seed": seed, **found})
    return {"benchmark": BENCHMARK, "target": TARGET, "send": SEND, "most": MOST, "runs": runs}


def section(found: dict[str, Any]) -> str:
    """The table for docs/deployment.md: medians over seeds."""
    lines = ["| strategy | `--compress` | bytes of an answer | rounds | bytes up | time |"]
    lines.append("| --- " * 6 + "|")
    for strategy in STRATEGIES:
        for way in WAYS:
            runs = [r for r in found["runs"] if (r["strategy"], r["compress"]) == (strategy, way)]
            middle = {k: statistics.median(r[k] for r in runs) for k in ("rounds", "sent")}
            whole = all(run["reached"] is not None for run in runs)
            told = f"{statistics.median(r['reached'] for r in runs):.0f}" if whole else "-"
            rounds = f"{middle['rounds']:g}" if whole else f"not in {found['most']}"
            kilobytes = f"{middle['sent'] / 1000:,.0f} kB"
            size = f"{runs[0]['answer']:,}"
            lines.append(f"| {strategy} | `{way}` | {size} | {rounds} | {kilobytes} | {told} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, write the results down, and show the table."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    began = time.process_time()
    found = measured()
    OUT.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(section(found))
    print(f"{time.process_time() - began:.0f} s")


if __name__ == "__main__":
    main()
