"""How good the model of a round is, on data that are the same for all runs."""

from __future__ import annotations

import os

import torch

from fedcore.client.executors.stacked_model import scores_of
from fedcore.seeding import stream
from fedcore.server.evaluate import Evaluator, Score, draw, draw_from, pool
from fedcore.sim.federation import Federation
from fedcore.sources.clients import LazyClients, sizes_of
from fedcore.types import Params


class Measure:
    """Scores models on training and test data of a federation, or on some of them."""

    def __init__(
        self, federation: Federation, count: int, device: torch.device, threads: int
    ) -> None:
        """Draw what is measured on.

        Args:
            federation: data and model.
            count: samples of training and of test data; 0: all.
            device: where models are evaluated.
            threads: that do so on a CPU; 0: one per core. A GPU has enough to do with one.
        """
        passes = (threads or os.cpu_count() or 1) if device.type == "cpu" else 1
        self._evaluator = Evaluator([scores_of(federation.task, device) for _ in range(passes)])
        self._clients = clients = federation.dataset.clients
        sizes = sizes_of(clients)
        train, test = None, federation.dataset.test
        if 0 < count < sizes.counts.sum():
            train = draw_from(clients, sizes, count, stream(0, "evaluate", "train"))
        elif not isinstance(clients, LazyClients):  # else it need not fit in memory
            train = pool(clients.values())
        if test is not None:
            test = draw(test, count, stream(0, "evaluate", "test"))
        self._train = None if train is None else train.to(device)
        self._test = None if test is None else test.to(device)

    def train(self, params: Params) -> Score:
        """L(w) of Eq. 1 and the accuracy on training data."""
        if self._train is not None:
            return self._evaluator.score(params, self._train)
        return self._evaluator.score_each(params, self._clients.values())

    def test(self, params: Params) -> Score | None:
        """The same on held-out data, if there are any."""
        return None if self._test is None else self._evaluator.score(params, self._test)
