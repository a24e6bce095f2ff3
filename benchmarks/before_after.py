"""What another checkout's solver and engine bring, and this one's, in turns on one machine.

    python -m benchmarks.before_after ../other-checkout

The anchors (the public solver, the plain loop) are the same code on both sides, so a ratio of CPU
times is the ratio of what each brings against them; the engine has its plain loop measured too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
RESULT = HERE / "benchmarks" / "results" / "before-after.json"
TURNS = 5
SOLVER = """
import json, sys, time
import numpy as np
from benchmarks.coreset.data import STAGES, residual_gradients
from fedcore import select_coreset

rows = []
for count in (500, 2000, 10000):
    for stage in STAGES:
        residuals, weight = residual_gradients(count, stage)
        wide = weight.astype(np.float64)
        points = (residuals @ np.linalg.cholesky(wide @ wide.T)).astype(np.float32)
        for share in (0.05, 0.2, 0.5, 0.8):
            k, best = int(share * count), 1e9
            for seed in range(3):
                began = time.process_time()
                found = select_coreset(points, k, seed=seed)
                best = min(best, time.process_time() - began)
            rows.append([count, stage, share, best, found.objective])
json.dump(rows, sys.stdout)
"""


def in_checkout(folder: Path, *command: str) -> Any:
    """What a Python command prints as JSON, run in a checkout on its own source, on one thread."""
    path = os.pathsep.join((str(folder / "src"), str(folder)))
    own = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=own,
    )
    return json.loads(done.stdout)


def solvers(other: Path) -> list[dict[str, Any]]:
    """Best CPU time of each case on either side, of several turns."""
    best: dict[tuple[Any, ...], list[float]] = {}
    objectives: dict[tuple[Any, ...], list[float]] = {}
    for _ in range(TURNS):
        for side, folder in enumerate((other, HERE)):
            for *case, seconds, objective in in_checkout(folder, "-c", SOLVER):
                times = best.setdefault(tuple(case), [1e9, 1e9])
                times[side] = min(times[side], seconds)
                objectives.setdefault(tuple(case), [0.0, 0.0])[side] = objective
    return [
        {
            "n": case[0],
            "stage": case[1],
            "k/n": case[2],
            "before ms": round(1e3 * before, 2),
            "after ms": round(1e3 * after, 2),
            "before / after": round(before / after, 2),
            "objective after / before": round(objectives[case][1] / objectives[case][0], 6),
        }
        for case, (before, after) in best.items()
    ]


def engines(other: Path) -> list[dict[str, Any]]:
    """Times faster than the plain loop on either side; the best of two turns."""
    rows = []
    for model in ("logistic", "cnn"):
        command = ("-m", "benchmarks.simulator", "--device", "cpu", "--quick", "--model", model)
        found = [[in_checkout(f, *command)["times faster"] for f in (other, HERE)] for _ in "ab"]
        before, after = (max(turn[side] for turn in found) for side in (0, 1))
        rows.append({"model": model, "before": before, "after": after, "all turns": found})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="a checkout of the commit to compare with")
    other = parser.parse_args().other.resolve()
    commit = ["git", "-C", str(other), "rev-parse", "HEAD"]
    content = {
        "before": subprocess.check_output(commit, text=True).strip(),
        "solver": solvers(other),
        "engine": engines(other),
    }
    RESULT.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for row in (*content["solver"], *content["engine"]):
        sys.stdout.write(f"{row}\n")


if __name__ == "__main__":
    main()
