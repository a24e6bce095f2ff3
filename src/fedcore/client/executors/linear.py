"""The executor for linear classifiers: compiled loops, clients side by side on threads.

Equal to ``SequentialExecutor`` up to the rounding of float32 sums: the same samples in the same
order, from the same random streams.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedcore.client.coresets import Coresets, asks_nothing_of_the_model
from fedcore.client.executors.sequential import SequentialExecutor, phase_schedule
from fedcore.client.selections import Selections
from fedcore.compiled import have_numba
from fedcore.models.logistic import LinearClassifier
from fedcore.task import Task, has_hooks
from fedcore.types import (
    Assignment,
    ClientData,
    ClientId,
    LocalUpdate,
    Params,
    SelectionTime,
    TrainingSettings,
)


def fits(task: Task) -> bool:
    """Whether a model is one linear layer with a bias, and compiled code can run here.

    It computes what such a layer computes, so kinds that only inherit from it, hooks, and layers
    of which something is frozen or computed are left to the model itself.
    """
    model = task.model
    layer = model.linear if type(model) is LinearClassifier else model
    return (
        type(layer) is nn.Linear
        and layer.bias is not None
        and all(p.requires_grad and p.dtype == torch.float32 for p in model.parameters())
        and not has_hooks(model)
        and have_numba()
    )


class LinearExecutor:
    """Trains clients of a linear model in compiled loops."""

    def __init__(
        self,
        task: Task,
        clients: Mapping[ClientId, ClientData],
        settings: TrainingSettings,
        *,
        threads: int = 1,
    ) -> None:
        """Bind the data; a client's is looked at when it trains."""
        self._names = [name for name, _ in task.model.named_parameters()]
        self._sigmoid = type(task.model) is LinearClassifier and task.model.sigmoid
        self._task = task
        self._clients = clients
        self._settings = settings
        self._threads = threads or os.cpu_count() or 1
        choosing = 0 if self._threads == 1 else self._threads
        self._selections = Selections(Coresets(clients), choosing)
        self._own = threading.local()

    @property
    def selection(self) -> SelectionTime:
        """What choosing coresets took so far."""
        return self._selections.time

    def expect(self, assignments: Sequence[Assignment]) -> None:
        """Begin to choose the coresets that these will need, where inputs alone decide."""
        self._selections.expect(assignments)

    def run(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        """Train every assignment from ``params``; threads change the time, never the result."""
        if self._threads == 1:
            return [self._train(params, assignment) for assignment in assignments]
        self.expect(assignments)
        pool = ThreadPoolExecutor(self._threads)
        try:
            queue = sorted(assignments, key=self._rank)
            running = {a.client_id: pool.submit(self._train, params, a) for a in queue}
            return [running[assignment.client_id].result() for assignment in assignments]
        finally:  # an error or an interrupt is not to wait for the clients behind it
            pool.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Drop the coresets that nobody has begun to choose."""
        self._selections.close()

    def _rank(self, assignment: Assignment) -> tuple[bool, int, int]:
        """Who has a coreset comes first, then who gets one first, which is the largest.

        Of each the longest, so that no thread starts it when the others are done.
        """
        missing = self._selections.missing(assignment)
        work = assignment.plan.work(len(self._clients[assignment.client_id]))
        return missing > 0, -missing, -work

    def _train(self, params: Params, assignment: Assignment) -> LocalUpdate:
        from fedcore.models.logistic.kernel import train_linear

        if not self._can_compile(assignment):
            return self._plain().train(params, assignment)
        x, y = _arrays(self._clients[assignment.client_id])
        batch_size = self._settings.batch_size
        phases = range(len(assignment.plan.phases))
        samples = [self._selections.begin(assignment, number)() for number in phases]
        # Phases are one tape: a linear model's coresets do not wait for its gradients.
        tapes = [
            phase_schedule(assignment, number, samples[number], batch_size) for number in phases
        ]
        weight, bias = (params[name].numpy().copy() for name in self._names)
        train_linear(
            weight,
            bias,
            x,
            y,
            np.concatenate([tape.index for tape in tapes]),
            np.concatenate([tape.coefficient for tape in tapes]),
            self._settings.learning_rate,
            assignment.plan.prox_mu,
            self._sigmoid,
        )
        trained = [torch.from_numpy(weight), torch.from_numpy(bias)]
        last = samples[-1] if assignment.plan.phases[-1].coreset is not None else None
        return LocalUpdate(
            assignment.client_id,
            dict(zip(self._names, trained, strict=True)),
            len(y),
            coreset_size=None if last is None else len(last.indices),
            gradient_error=None if last is None else last.gradient_error,
        )

    def _plain(self) -> SequentialExecutor:
        """The plain loop, out of whose backward passes gradient proxies come.

        A thread has its own: a module that is called with parameters swaps its own for them.
        """
        if not hasattr(self._own, "plain"):
            task = self._task.on(torch.device("cpu"))
            self._own.plain = SequentialExecutor(
                task, self._clients, self._settings, self._selections
            )
        plain: SequentialExecutor = self._own.plain
        return plain

    def _can_compile(self, assignment: Assignment) -> bool:
        phases = assignment.plan.phases
        specs = [phase.coreset for phase in phases if phase.coreset is not None]
        by_inputs = all(asks_nothing_of_the_model(spec) for spec in specs)
        forward = any(phase.forward_price is not None for phase in phases)
        return by_inputs and not forward and not self._settings.measure_full_gradient


def _arrays(data: ClientData) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The flat arrays that the loop reads; views, where the samples are stored like that."""
    x, y = data.take(slice(None))
    return x.flatten(1).to(torch.float32).contiguous().numpy(), y.to(torch.int64).numpy()
