"""What a comparison of ten methods costs: ``python -m benchmarks.stragglers.cost``.

One seed, 100 deadlines, fleet `paper`, each method at the step size that the study chose.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from benchmarks.stragglers.figures import RESULTS, read
from benchmarks.stragglers.settings import COST, METHODS, experiment_of
from fedcore.cli.grid import run_grid

RESULT = RESULTS / "stragglers-cost.json"
ALLOWED = 180  # seconds on two cores


def measure() -> dict[str, Any]:
    """Wall and CPU seconds of each method, kernels compiled before."""
    study = read("synthetic-1-1", "paper")
    assert study is not None
    rows = []
    for name in ("fedcore", *COST):  # the first is for the kernels, and does not count
        rate = study["methods"][name]["learning_rate"]
        experiment = experiment_of(
            "synthetic-1-1", "paper", name, learning_rate=rate, seed=(0,), threads=2
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
    titles = ", ".join(METHODS[row["method"]].title for row in content["methods"])
    return f"""## What it costs

A comparison of ten methods on Synthetic(1, 1), 100 deadlines, one seed, fleet `paper`, takes
{wall:.0f} s on {content["cores"]} cores, {cpu:.0f} s of CPU; {ALLOWED} s were allowed.
{title} takes most of it, {slowest["wall"]:.0f} s. The ten: {titles}.
"""


def main() -> None:
    RESULT.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
