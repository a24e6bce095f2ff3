"""What a comparison of ten methods costs: ``python -m benchmarks.stragglers.cost``.

One seed, 100 deadlines, fleet `paper`, one step size: what it is changes no cost.
"""

from __future__ import annotations

import argparse
import json
import os
import textwrap
import time
from typing import Any

from benchmarks.stragglers.figures import RESULTS
from benchmarks.stragglers.settings import COST, METHODS, experiment_of
from fedcore.cli.grid import run_grid

RESULT = RESULTS / "stragglers-cost.json"
ALLOWED = 180  # seconds on two cores


def measure() -> dict[str, Any]:
    """Wall and CPU seconds of each method, kernels compiled before."""
    rows = []
    for name in ("fedcore", *COST):  # the first is for the kernels, and does not count
        experiment = experiment_of(
            "synthetic-1-1", "paper", name, learning_rate=0.003, seed=(0,), threads=2
        )
        wall, cpu = time.perf_counter(), time.process_time()
        _, runs = run_grid(experiment, None)
        (rounds,) = runs.values()
        row: dict[str, Any] = {"method": name, "wall": time.perf_counter() - wall}
        row |= {"cpu": time.process_time() - cpu, "merges": sum(not one.cut for one in rounds)}
        print({key: f"{x:.1f}" if isinstance(x, float) else x for key, x in row.items()})
        rows.append(row)
    return {"cores": os.cpu_count(), "methods": rows[1:]}


def section() -> str:
    """The paragraph of the page."""
    content = json.loads(RESULT.read_text("utf-8"))
    wall, cpu = (sum(row[key] for row in content["methods"]) for key in ("wall", "cpu"))
    slowest = max(content["methods"], key=lambda row: row["wall"])
    title = METHODS[slowest["method"]].title
    titles = "; ".join(METHODS[row["method"]].title for row in content["methods"])
    told = (
        "A comparison of ten methods on Synthetic(1, 1), 100 deadlines, one seed, fleet `paper`, "
        f"takes {cpu:.0f} s of CPU. On {content['cores']} cores that others used as well, "
        f"{wall:.0f} s passed, of {ALLOWED} s that were allowed; most of them, "
        f"{slowest['wall']:.0f} s, for {title}. The ten: {titles}."
    )
    return f"## What it costs\n\n{textwrap.fill(told, width=100, break_on_hyphens=False)}\n"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    RESULT.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
