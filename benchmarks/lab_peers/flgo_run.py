"""flgo: its FedAvg and FedBuff on its own benchmark of synthetic data, with our clients in it.

Its clock goes in whole ticks, and every tick looks at every client. A tick here is a hundredth of
the mean length of a job, to which lengths are rounded.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import flgo
import flgo.algorithm.fedavg
import flgo.algorithm.fedbuff
import numpy as np
from flgo.algorithm.fedbase import BasicClient
from flgo.experiment.logger.simple_logger import SimpleLogger
from flgo.simulator.base import BasicSimulator
from torch import nn

from benchmarks.lab_peers import work

TICKS = 100


def task(clients: work.Clients, folder: Path) -> str:
    """Write a task as flgo keeps them; gives its folder."""
    path = folder / "task"
    for name in ("record", "log"):
        (path / name).mkdir(parents=True)
    names = [f"Client{number:02d}" for number in range(len(clients))]
    test = {"x": clients.test_x.tolist(), "y": clients.test_y.tolist()}
    held: dict[str, Any] = {"client_names": names, "server": {"data": test}}
    for name, (x, y) in zip(names, clients.pairs(), strict=True):
        held[name] = {"data": {"x": x.tolist(), "y": y.tolist(), "w": []}}
    (path / "data.json").write_text(json.dumps(held))
    (path / "info").write_text(json.dumps({"benchmark": "flgo.benchmark.synthetic_regression"}))
    return str(path)


def simulate(
    clients: work.Clients, options: argparse.Namespace, laps: work.Laps
) -> tuple[float, nn.Linear]:
    """Both methods."""
    tick = clients.seconds.mean() / TICKS
    ticks = np.maximum(1, np.rint(clients.seconds / tick)).astype(int)

    class Speeds(BasicSimulator):
        """Gives jobs their length."""

        def update_client_responsiveness(self, client_ids: list[int], *more: Any) -> None:
            """As long as the client takes."""
            self.set_variable(client_ids, "latency", [int(ticks[c]) for c in client_ids])

    class Merges(SimpleLogger):
        """Notes merges: it is asked after each whether to evaluate."""

        def check_if_log(self, *arguments: Any) -> bool:
            """Whether to evaluate."""
            laps.merged()
            return bool(super().check_if_log(*arguments))

    train = BasicClient.train

    def trained(self: BasicClient, *arguments: Any, **named: Any) -> Any:
        laps.trained(self.id)
        return train(self, *arguments, **named)

    share = (clients.at_once + 0.5) / len(clients)  # which it multiplies and cuts to a number
    settings: dict[str, Any] = {
        "num_rounds": clients.merges,
        "proportion": share,
        "num_epochs": clients.epochs,
        "learning_rate": clients.learning_rate,
        "batch_size": clients.batch_size,
        "train_holdout": 0.0,
        "eval_interval": 1 if options.evaluate else -1,
        "no_log_console": True,
        "no_tqdm": True,
        "torch_num_threads": 1,
    }
    if options.method == "fedbuff":
        settings["algo_para"] = [share, 1.0]  # buffer, step
    algorithm = getattr(flgo.algorithm, options.method)
    sys.argv = sys.argv[:1]  # which it reads too
    with TemporaryDirectory() as folder, mock.patch.object(BasicClient, "train", trained):
        os.chdir(folder)
        made = task(clients, Path(folder))
        server = flgo.init(made, algorithm, settings, Logger=Merges, Simulator=Speeds)
        clients.start(server.model.layer)
        server.run()
    layer: nn.Linear = server.model.layer
    return float(server.gv.clock.current_time * tick), layer


if __name__ == "__main__":
    work.run(simulate)
