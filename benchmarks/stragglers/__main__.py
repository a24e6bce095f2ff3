"""Run the straggler study, or a piece of it, with torch and NumPy alone: README.md beside this.

    python -m benchmarks.stragglers [--benchmark mnist] [--fleet phones] [--methods a,b,c]
        [--out FOLDER] [--results FOLDER] [--data-dir DIR] [--device cuda] [--threads N]

Every method has a folder of its own, ``FOLDER/BENCHMARK/FLEET/METHOD``, as ``fedcore compare``
writes it. One that is done is left alone, one that was killed goes on. Pieces may run side by
side. What is done is condensed into ``RESULTS/stragglers-BENCHMARK-FLEET.json`` at the end.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

from benchmarks.stragglers.condense import condense  # noqa: E402
from benchmarks.stragglers.settings import PARTS, experiment_of  # noqa: E402
from fedcore.cli.grid import run_grid  # noqa: E402
from fedcore.records import RunKey  # noqa: E402
from fedcore.sim.measure import Measure, Score  # noqa: E402
from fedcore.types import Params  # noqa: E402


def nothing_of_training_data(measure: Measure, params: Params) -> Score:
    """In place of the accuracy on training data after every merge, which nothing here goes by.

    Measuring it is half of the time of asynchronous runs. That of slow clients and of the worst is
    measured as ever, when a run ends.
    """
    return Score(None, None)


def run_method(
    benchmark: str, fleet: str, name: str, out: Path, **of_the_machine: str | int | None
) -> None:
    """One method on one fleet, or what is left of it."""
    folder = out / benchmark / fleet / name
    if (folder / "summary.json").exists():
        return
    experiment = experiment_of(benchmark, fleet, name, **of_the_machine)
    began = [time.perf_counter(), time.process_time()]
    told: set[RunKey] = set()

    def tell(run: RunKey, done: int, share: float) -> None:
        if run not in told:
            told.add(run)
            rate = f"step size {run.learning_rate:g}, seed {run.seed}"
            passed = time.perf_counter() - began[0]
            print(f"{passed:7.1f} s {fleet} {name}: {rate}", flush=True)

    with mock.patch.object(Measure, "train", nothing_of_training_data):
        run_grid(experiment, folder, resume=(folder / "experiment.json").exists(), tell=tell)
    wall, cpu = (now - then for now, then in zip(clocks(), began, strict=True))
    print(f"{fleet} {name}: done in {wall:.0f} s, {cpu:.0f} s of CPU", flush=True)


def clocks() -> list[float]:
    """Wall and CPU seconds."""
    return [time.perf_counter(), time.process_time()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark", choices=list(PARTS), default="synthetic-1-1")
    parser.add_argument("--fleet", default="", help="one or several; without: all of the part")
    parser.add_argument("--methods", default="", help="separated by commas; without: all")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "stragglers")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--data-dir")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=1, help="0: one per core")
    parser.add_argument("--condense", action="store_true", help="run nothing; write the results")
    asked = parser.parse_args()
    part = PARTS[asked.benchmark]
    fleets = asked.fleet.split(",") if asked.fleet else part.fleets
    methods = asked.methods.split(",") if asked.methods else part.methods
    for kind, names, known in (("fleet", fleets, part.fleets), ("method", methods, part.methods)):
        for name in names:
            if name not in known:
                there = ", ".join(known)
                parser.error(f"{kind} {name!r} is not of this part; it has {there}")
    machine = {"data_dir": asked.data_dir, "device": asked.device, "threads": asked.threads}
    given = {name: value for name, value in machine.items() if value is not None}
    for fleet in fleets:
        if not asked.condense:
            for name in methods:
                run_method(asked.benchmark, fleet, name, asked.out, **given)
        path = condense(asked.benchmark, fleet, asked.out, asked.results)
        print(f"written: {path}" if path else f"{fleet}: nothing is done", flush=True)


if __name__ == "__main__":
    main()
