"""How many steps every piece of Table 2 takes, by the plans alone.

    python -m benchmarks.paper.steps [--only mnist] [--preset paper] [--data-dir DIR] [--out FILE]

Nothing is trained. Of each piece: client-steps, which a device can take side by side, and the
longest client's of every round, which it cannot: their sum, times what a step takes at the least,
is a floor of the piece's time on any device that trains clients side by side.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

from fedcore.cli.grid import prepare, runs_of  # noqa: E402
from fedcore.cli.table2 import Piece, pieces_of  # noqa: E402
from fedcore.sim import world  # noqa: E402
from fedcore.sim.measure import Measure, Score  # noqa: E402
from fedcore.sim.world import train_run  # noqa: E402
from fedcore.types import Assignment, LocalUpdate, Params, SelectionTime  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "table2-steps.json"


class Counting:
    """An executor that answers at once with nothing, and notes how many steps were asked for."""

    memory: dict[int, Any] = {}  # noqa: RUF012
    selection = SelectionTime()

    def __init__(self, clients: Any, batch: int) -> None:
        self.clients, self.batch, self.rounds = clients, batch, list[list[int]]()

    def expect(self, *_: Any) -> None:
        """Nothing is chosen ahead."""

    def close(self) -> None:
        """Nothing is held."""

    def run(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        """Answers that leave the model where it is: its smallest parameter, as it was."""
        found, steps = [], []
        name = min(params, key=lambda name: params[name].numel())
        for one in assignments:
            size = len(self.clients[one.client_id])
            taken = -(-one.plan.trained(size) // self.batch)
            steps.append(taken)
            same = LocalUpdate(one.client_id, {name: params[name]}, size, steps=taken)
            found.append(replace(same, base_version=one.base_version, work=one.plan.work(size)))
        self.rounds.append(steps)
        return found


def count(piece: Piece, data_dir: str | None) -> dict[str, Any]:
    """The steps of one piece."""
    where = {"data_dir": data_dir} if data_dir else {}
    experiment = piece.experiment({"device": "cpu", "threads": 1, **where})
    (run,) = runs_of(experiment)
    federation = prepare(experiment)[run.seed]
    asked = Counting(federation.dataset.clients, experiment.batch_size)
    nothing = mock.Mock(return_value=Score(0.0, 0.0))
    with (
        mock.patch.object(world, "choose_executor", return_value=asked),
        mock.patch.multiple(Measure, train=nothing, test=nothing),
    ):
        for _ in train_run(federation, experiment, run, None, (), None):
            pass
    named: dict[str, Any] = {
        "way": piece.way,
        "benchmark": piece.benchmark,
        "strategy": piece.strategy,
    }
    named |= {"stragglers": piece.stragglers, "seed": piece.seed}
    longest = sum(max(steps, default=0) for steps in asked.rounds)
    return {**named, "client-steps": sum(map(sum, asked.rounds)), "one after another": longest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="mnist,shakespeare")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path, default=RESULT)
    asked = parser.parse_args()
    rows = []
    for unit in pieces_of(asked.only, "10,30", "1", asked.preset):
        rows.append(count(unit[0], asked.data_dir))  # FedAvg's two levels are one training
        print(rows[-1], flush=True)
        lines = ",\n".join("  " + json.dumps(row) for row in rows)
        asked.out.write_text(f'{{"pieces": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
