"""Run the study of choosing, or a piece of it, with torch and NumPy alone: README.md beside this.

    python -m benchmarks.choosing [--part synthetic] [--arms random,medoids] [--piece 1/12]
        [--minutes 15] [--out FOLDER] [--results FOLDER] [--data-dir DIR] [--device cuda]
        [--threads N]

Every run is a line of ``FOLDER/PART/PIECE.jsonl``. Runs that are in any file there are left alone,
so the same command goes on where a killed one stopped, in as many pieces as one likes. What is done
is condensed into ``RESULTS/choosing-PART.json`` at the end.
"""

from __future__ import annotations

import functools
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

from benchmarks.choosing.arms import strategy_of  # noqa: E402
from benchmarks.choosing.condense import condense, key_of  # noqa: E402
from benchmarks.choosing.conditions import under  # noqa: E402
from benchmarks.choosing.experimental import arranged  # noqa: E402
from benchmarks.choosing.pieces import machine_of, options, work_off  # noqa: E402
from benchmarks.choosing.settings import PARTS, Cell, Part, arm_of, experiment_of  # noqa: E402
from benchmarks.stragglers.__main__ import nothing_of_training_data  # noqa: E402
from fedcore.records import RunKey  # noqa: E402
from fedcore.sim.federation import Federation, federation_from_model  # noqa: E402
from fedcore.sim.measure import Measure  # noqa: E402
from fedcore.sim.world import build_world, simulate_rounds  # noqa: E402
from fedcore.sources.benchmark import find  # noqa: E402
from fedcore.sources.clients import sizes_of  # noqa: E402
from fedcore.types import FederatedDataset  # noqa: E402


@functools.lru_cache(maxsize=1)
def dataset_of(benchmark: str, data_dir: str | None) -> FederatedDataset:
    place = Path(data_dir) if data_dir else None
    known = find(benchmark)
    seed = known.hyperparameters("paper").get("data_seed", 0)
    return known.load(seed=seed, data_dir=place, options={})


@functools.lru_cache(maxsize=1)  # cells come condition by condition, seed by seed
def federation_of(
    benchmark: str, model: str, condition: str, seed: int, data_dir: str | None
) -> Federation:
    dataset = under(condition, dataset_of(benchmark, data_dir), seed)
    return federation_from_model(dataset, model, seed)


def run(part: Part, cell: Cell, **machine: Any) -> dict[str, Any]:
    """Train one cell; gives its accuracies round by round."""
    arm = arm_of(cell)
    what = part.benchmark, part.model, cell.condition, cell.seed
    federation = federation_of(*what, machine.get("data_dir"))
    counts = sizes_of(federation.dataset.clients).counts
    experiment = experiment_of(part, cell, counts, **machine)
    key = RunKey(part.benchmark, cell.arm, 100.0, cell.seed)
    began, accuracies, rejected, work = time.perf_counter(), [], 0, 0
    quiet = mock.patch.object(Measure, "train", nothing_of_training_data)
    with quiet, arranged(arm):
        world = build_world(federation, experiment, key, strategy_of(arm, part.prices))
        for record, _ in simulate_rounds(world):
            accuracies.append(round(record.test_accuracy or 0.0, 5))
            rejected += record.rejected
            work += sum(client.copies * client.work for client in record.clients)
            if record.time > 1:
                raise RuntimeError(f"{cell} is late in round {record.number}: {record.time}")
    seconds = round(time.perf_counter() - began, 2)
    found = {"accuracies": accuracies, "rejected": rejected, "work": work, "seconds": seconds}
    return {**asdict(cell), **found}


def main() -> None:
    parser = options(__doc__, list(PARTS), "choosing")
    parser.add_argument("--arms", help="these alone; all of the part unless given")
    asked = parser.parse_args()
    part, machine = PARTS[asked.part], machine_of(asked)
    for name in (arms := asked.arms.split(",") if asked.arms else part.arms):
        if name not in part.arms:
            parser.error(f"arm {name!r} is not there; there are {', '.join(part.arms)}")
    folder = work_off(
        asked,
        [cell for cell in part.cells() if cell.arm in arms],
        lambda cell: key_of(asdict(cell)),
        key_of,
        lambda cell: run(part, cell, **machine),
    )
    path = condense(asked.part, folder, asked.results)
    print(f"written: {path}" if path else "nothing is done", flush=True)


if __name__ == "__main__":
    main()
