"""Ours: ``fedcore.simulate``, compiled loop, one thread."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from torch import nn

import fedcore
from benchmarks.lab_peers import work
from fedcore.client.executors.blockwise import BlockwiseExecutor
from fedcore.records import RoundRecord
from fedcore.types import Assignment, LocalUpdate, Params


def simulate(
    clients: work.Clients, options: argparse.Namespace, laps: work.Laps
) -> tuple[float, nn.Linear]:
    """Both methods; jobs are counted where they are trained, which is before they are due."""
    model = nn.Linear(60, 10)  # a layer as it is has a compiled loop
    clients.start(model)
    passed, train = 0.0, BlockwiseExecutor.run

    def counted(
        self: BlockwiseExecutor, params: Params, assignments: Sequence[Assignment]
    ) -> list[LocalUpdate]:
        for one in assignments:
            laps.trained(one.client_id)
        return train(self, params, assignments)

    def merged(record: RoundRecord) -> None:
        nonlocal passed
        passed += record.seconds
        laps.merged()

    speeds = clients.epochs * clients.sizes / clients.seconds
    lines = [f"{client},{float(speed)!r}" for client, speed in enumerate(speeds)]
    patched = mock.patch.object(BlockwiseExecutor, "run", counted)
    with TemporaryDirectory() as folder, patched:
        path = Path(folder) / "speeds.csv"
        path.write_text("\n".join(["client,samples_per_second", *lines]))
        history = fedcore.simulate(
            clients.pairs(),
            model,
            test=clients.test() if options.evaluate else None,
            strategy=options.method,
            on_round=merged,
            speeds=str(path),
            clients_per_round=clients.at_once,
            selection="uniform",
            aggregation="samples",
            rounds=clients.merges,
            epochs=clients.epochs,
            batch_size=clients.batch_size,
            learning_rate=clients.learning_rate,
            device="cpu",
            threads=1,
            evaluate_samples=0 if options.evaluate else 1,
            method={"buffer": clients.at_once} if options.method == "fedbuff" else {},
        )
    model.load_state_dict(dict(history.params))
    return passed, model


if __name__ == "__main__":
    work.run(simulate)
