"""appfl: its virtual-time drivers with its FedAvg and FedBuff.

``--keep-garbage`` switches ``optimize_memory`` off wherever it is asked for: by default appfl
collects garbage several times for every job and every answer. Its measures of image quality are
left out: they need a torchvision built like this torch, and nobody asks for them here.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any
from unittest import mock

from torch import nn
from torch.utils.data import TensorDataset

from benchmarks.lab_peers import work

sys.modules["piq"] = ModuleType("piq")
from appfl.agent import SimClientAgent, SimServerAgent  # noqa: E402
from appfl.algorithm.aggregator import FedAvgAggregator, FedBuffAggregator  # noqa: E402
from appfl.vsim import AsyncSimDriver, ClientProfile, SyncSimDriver  # noqa: E402

MODEL = Path(__file__).with_name("model.py")


def configs(clients: work.Clients, options: argparse.Namespace) -> tuple[dict[str, Any], ...]:
    """Of the server, with those that clients share, and of a client."""
    tidy = {"optimize_memory": not options.keep_garbage}
    buffered = options.method == "fedbuff"
    model = {"model_path": str(MODEL), "model_name": "Logistic"}
    training = {
        "trainer": "VanillaTrainer",
        "mode": "epoch",
        "num_local_epochs": clients.epochs,
        "optim": "SGD",
        "optim_args": {"lr": clients.learning_rate},
        "loss_fn": "CrossEntropyLoss",
        "metric_path": str(MODEL),
        "metric_name": "accuracy",
        "train_batch_size": clients.batch_size,
        "device": "cpu",
        "clip_grad": False,  # as its examples say; looking for it at every step takes longer
        "send_gradient": buffered,  # so that answers are moves from where they began
        **tidy,
    }
    # An answer counts alpha / clients: this makes it 1 / B.
    rule = {
        "K": clients.at_once,
        "alpha": len(clients) / clients.at_once,
        "staleness_fn": "polynomial",
        "staleness_fn_kwargs": {"a": 0.5},
        "gradient_based": True,
    }
    server = {
        "num_clients": len(clients),
        # Of answers where they are buffered: its scheduler counts these.
        "num_global_epochs": clients.merges * (clients.at_once if buffered else 1),
        "scheduler": "AsyncScheduler" if buffered else "SyncScheduler",
        "scheduler_kwargs": dict(tidy),
        "aggregator": "FedBuffAggregator" if buffered else "FedAvgAggregator",
        "aggregator_kwargs": (rule if buffered else {"client_weights_mode": "sample_size"}) | tidy,
        "device": "cpu",
        **tidy,
    }
    shared = {"client_configs": {"train_configs": training, "model_configs": model}}
    return shared | {"server_configs": server}, {
        "train_configs": training,
        "model_configs": model,
        **tidy,
    }


def driver_of(clients: work.Clients, options: argparse.Namespace, laps: work.Laps) -> Any:
    """Server, clients and speeds, in the driver of a method; links have no limit."""
    of_server, of_client = configs(clients, options)
    server = SimServerAgent(of_server)
    clients.start(server.model.linear)
    server.load_server_val_dataset(TensorDataset(*clients.test()))
    agents, profiles = [], {}
    for number, pair in enumerate(clients.pairs()):
        agent = SimClientAgent(of_client, str(number), TensorDataset(*pair))
        server.set_sample_size(agent.get_id(), len(pair[1]))
        slowness = float(clients.seconds[number]) / clients.steps(number)
        profiles[agent.get_id()] = ClientProfile(compute_factor=slowness, bandwidth=0)
        agents.append(agent)
    common = {
        "logger": logging.getLogger("vsim"),
        "seed": 0,
        "base_step_time": 1.0,
        "eval_every": (clients.at_once if options.method == "fedbuff" else 1) * options.evaluate,
    }
    if options.method == "fedbuff":
        return AsyncSimDriver(server, agents, profiles, clients.at_once, **common)
    rounds = {"target_rounds": clients.merges}
    return SyncSimDriver(server, agents, profiles, clients.at_once, **common, **rounds)


def simulate(
    clients: work.Clients, options: argparse.Namespace, laps: work.Laps
) -> tuple[float, nn.Linear]:
    """Both methods."""
    train, average, buffer = (
        SimClientAgent.train,
        FedAvgAggregator.aggregate,
        FedBuffAggregator.aggregate,
    )

    def trained(self: SimClientAgent, **named: Any) -> None:
        laps.trained(int(self.get_id()))
        train(self, **named)

    def averaged(self: FedAvgAggregator, *arguments: Any, **named: Any) -> Any:
        answer = average(self, *arguments, **named)
        laps.merged()
        return answer

    def buffered(self: FedBuffAggregator, *arguments: Any, **named: Any) -> Any:
        answer = buffer(self, *arguments, **named)
        if self.buff_size == 0:
            laps.merged()
        return answer

    with (
        TemporaryDirectory() as folder,
        mock.patch.object(SimClientAgent, "train", trained),
        mock.patch.object(FedAvgAggregator, "aggregate", averaged),
        mock.patch.object(FedBuffAggregator, "aggregate", buffered),
    ):
        os.chdir(folder)  # it writes logs where it stands
        driver = driver_of(clients, options, laps)
        driver.run()
    layer: nn.Linear = driver.server.aggregator.model.linear
    return float(driver.virtual_time), layer


if __name__ == "__main__":
    work.run(simulate, "--keep-garbage")
