"""flsim: its synchronous trainer with FedAvg, its asynchronous one with FedBuff.

On Python 3.11 its configurations, dataclasses with instances of dataclasses as defaults, are
refused unless these have a hash; they are given one here. It knows no client's speed: a job's
length is drawn anew, by the number of samples at most. A generator of events of our own gives the
length of the client that was drawn last. Jobs begin at a constant rate, whoever is still at work,
so that K are at work in the mean only; a client may be at work twice.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import logging
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.lab_peers import work
from benchmarks.lab_peers.model import Logistic

_plain = dataclasses.dataclass


def hashable(cls: Any = None, /, **options: Any) -> Any:
    """``dataclass``, whose classes always have a hash."""
    if cls is None:
        return functools.partial(hashable, **options)
    made = _plain(cls, **options)
    if made.__hash__ is None:
        made.__hash__ = object.__hash__
    return made


dataclasses.dataclass = hashable
try:
    from flsim.active_user_selectors.simple_user_selector import (
        UniformlyRandomActiveUserSelectorConfig,
    )
    from flsim.clients.base_client import Client, ClientConfig
    from flsim.data.data_provider import FLDataProviderFromList
    from flsim.interfaces.metrics_reporter import IFLMetricsReporter
    from flsim.interfaces.model import IFLModel
    from flsim.optimizers.async_aggregators import FedAvgWithLRFedBuffAggregatorConfig
    from flsim.optimizers.local_optimizers import LocalOptimizerSGDConfig
    from flsim.optimizers.server_optimizers import FedAvgOptimizerConfig
    from flsim.servers.sync_servers import SyncServerConfig
    from flsim.trainers.async_trainer import AsyncTrainer, AsyncTrainerConfig
    from flsim.trainers.sync_trainer import SyncTrainer, SyncTrainerConfig
    from flsim.trainers.trainer_base import FLTrainer
    from flsim.utils.async_trainer.async_staleness_weights import PolynomialStalenessWeightConfig
    from flsim.utils.async_trainer.async_weights import AsyncWeightConfig
    from flsim.utils.async_trainer.training_event_generator import IEventGenerator
    from flsim.utils.simple_batch_metrics import FLBatchMetrics
finally:
    dataclasses.dataclass = _plain
from omegaconf import OmegaConf  # noqa: E402

Batch = tuple[Tensor, Tensor]


class Learner(IFLModel):
    """A model with the functions that flsim asks for."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def fl_forward(self, batch: Batch) -> FLBatchMetrics:
        """Loss and scores of a batch."""
        x, y = batch
        scores = self.model(x)
        known = {"predictions": scores.detach(), "targets": y, "model_inputs": x}
        loss = nn.functional.cross_entropy(scores, y)
        return FLBatchMetrics(loss=loss, num_examples=len(y), **known)

    get_eval_metrics = fl_forward

    def fl_create_training_batch(self, batch: Batch) -> Batch:
        """Batches are made already."""
        return batch

    def fl_get_module(self) -> nn.Module:
        """The module."""
        return self.model

    def fl_cuda(self) -> None:
        """Stay on the CPU."""

    def get_num_examples(self, batch: Batch) -> int:
        """Samples in it."""
        return len(batch[1])


class Reporter(IFLMetricsReporter):
    """The accuracy, where a model is evaluated; nothing is shown."""

    def __init__(self) -> None:
        self.reset()

    def add_batch_metrics(self, metrics: FLBatchMetrics) -> None:
        """Note who was right; batches that are trained on are not looked at."""
        if not torch.is_grad_enabled():
            self._right.append(metrics.predictions.argmax(1) == metrics.targets)

    def aggregate(self, one_user_metrics: IFLMetricsReporter) -> None:
        """Of one user, into this: nobody asks."""

    def report_metrics(
        self, reset: bool, stage: Any, extra_metrics: Any = None, **more: Any
    ) -> Any:
        """The accuracy, and whether this is the model to keep: the last always is."""
        accuracy = float(torch.cat(self._right).float().mean()) if self._right else 0.0
        self.reset()
        return accuracy, True

    def reset(self) -> None:
        """Forget."""
        self._right: list[Tensor] = []


class Users(FLDataProviderFromList):
    """All clients; it knows who was asked for last."""

    last = 0

    def get_train_user(self, user_index: int) -> Any:
        """A client's batches."""
        self.last = user_index
        return super().get_train_user(user_index)


class Speeds(IEventGenerator):
    """Jobs begin at a constant rate and take as long as their client takes."""

    def __init__(self, clients: work.Clients, users: Users) -> None:
        self._clients, self._users = clients, users

    def time_to_next_event_start(self) -> float:
        """So that K are at work in the mean."""
        return float(self._clients.seconds.mean()) / self._clients.at_once

    def training_duration(self, num_training_examples: int) -> float:
        """Of who was drawn last."""
        return float(self._clients.seconds[self._users.last])


def trainer_of(clients: work.Clients, learner: Learner, users: Users, options: Any) -> FLTrainer:
    """The trainer of a method; an epoch of it is as many jobs as there are clients."""
    common = {
        "epochs": clients.merges * clients.at_once / len(clients),
        "do_eval": options.evaluate,
        "eval_epoch_frequency": clients.at_once / len(clients),
        "report_train_metrics": False,
        "client": ClientConfig(
            epochs=clients.epochs, optimizer=LocalOptimizerSGDConfig(lr=clients.learning_rate)
        ),
    }
    if options.method == "fedavg":
        selector = UniformlyRandomActiveUserSelectorConfig(user_selector_seed=0)
        server = SyncServerConfig(
            server_optimizer=FedAvgOptimizerConfig(), active_user_selector=selector
        )
        plan = SyncTrainerConfig(server=server, users_per_round=clients.at_once, **common)
        return SyncTrainer(model=learner, **OmegaConf.structured(plan))
    # Sums of moves, by (1 + staleness)^-1/2, times 1 / B.
    weight = PolynomialStalenessWeightConfig(avg_staleness=0, exponent=0.5)
    buffer = FedAvgWithLRFedBuffAggregatorConfig(
        lr=1 / clients.at_once, buffer_size=clients.at_once
    )
    plan = AsyncTrainerConfig(
        aggregator=buffer, async_weight=AsyncWeightConfig(staleness_weight=weight), **common
    )
    trainer = AsyncTrainer(model=learner, **OmegaConf.structured(plan))
    trainer._event_generator = Speeds(clients, users)
    return trainer


def simulate(
    clients: work.Clients, options: argparse.Namespace, laps: work.Laps
) -> tuple[float | None, nn.Linear]:
    """Both methods; the synchronous trainer adds up no time."""
    logging.disable(logging.INFO)
    np.random.seed(0)
    torch.manual_seed(0)
    model = Logistic()
    clients.start(model.linear)
    learner = Learner(model)
    parts = [
        list(zip(x.split(clients.batch_size), y.split(clients.batch_size), strict=True))
        for x, y in clients.pairs()
    ]
    users = Users(parts, [[clients.test()]], [], learner)
    trainer = trainer_of(clients, learner, users, options)
    train, evaluate = Client.train, FLTrainer._maybe_run_evaluation

    def trained(self: Client, *arguments: Any, **named: Any) -> Any:
        laps.trained(int(self.name.rpartition("_")[2]))
        return train(self, *arguments, **named)

    def merged(self: FLTrainer, *arguments: Any, **named: Any) -> Any:
        laps.merged()
        return evaluate(self, *arguments, **named)

    with (
        mock.patch.object(Client, "train", trained),
        mock.patch.object(FLTrainer, "_maybe_run_evaluation", merged),
    ):
        trainer.train(users, Reporter(), len(clients), 1)
    clock = getattr(trainer, "_training_simulator", None)
    layer: nn.Linear = trainer.global_model().fl_get_module().linear
    return (clock.current_time if clock else None), layer


if __name__ == "__main__":
    work.run(simulate)
