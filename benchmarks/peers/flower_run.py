"""Flower's simulation (Ray): its own FedAvg, told which clients to ask."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable
from pathlib import Path

# Nothing leaves the machine; set before Flower and Ray are imported.
os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}

from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.peers.flower_client import THREADS, WORK_FILE, app
from benchmarks.peers.work import Answer, Stopwatch, Work


class GivenCohorts(FedAvg):
    """FedAvg that asks the clients of the file instead of drawing some, and never evaluates."""

    def __init__(self, work: Work) -> None:
        super().__init__(fraction_evaluate=0.0)
        self._work = work
        self.watch = Stopwatch()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """One message per client of the cohort; any node can play any client."""
        if server_round > 1:
            self.watch.round_done()
        cohort = self._work.cohorts[server_round - 1].tolist()
        while len(nodes := list(grid.get_node_ids())) < len(cohort):
            time.sleep(0.1)  # the server may be up before its nodes are
        return [
            Message(
                RecordDict(
                    {
                        "arrays": arrays,
                        "config": ConfigRecord({"round": server_round, "client": client}),
                    }
                ),
                dst_node_id=node,
                message_type=MessageType.TRAIN,
            )
            for node, client in zip(nodes[: len(cohort)], cohort, strict=True)
        ]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """As FedAvg does, but a client that failed is an error: it did not do its work."""
        answers = list(replies)
        for answer in answers:
            if answer.has_error():
                raise RuntimeError(f"Error in a client: {answer.error.reason}")
        return super().aggregate_train(server_round, answers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("answer", type=Path)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    os.environ[WORK_FILE] = str(options.work.resolve())
    os.environ[THREADS] = str(options.threads)
    work = Work.read(options.work)
    server = ServerApp()
    answers: list[Answer] = []

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = GivenCohorts(work)
        initial = ArrayRecord(numpy_ndarrays=work.initial)
        result = strategy.start(grid=grid, initial_arrays=initial, num_rounds=work.rounds)
        strategy.watch.round_done()
        answers.append(Answer(result.arrays.to_numpy_ndarrays(), strategy.watch.seconds))

    run_simulation(
        server_app=server,
        client_app=app,
        num_supernodes=len(work.sizes),
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0},
            "init_args": {"num_cpus": options.actors, "include_dashboard": False},
        },
    )
    answers[0].write(options.answer)


if __name__ == "__main__":
    main()
