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

from fedcore.client.coresets import Coresets
from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.client.job import Job, Train, waits_for_gradients
from fedcore.client.selections import Selections
from fedcore.compiled import have_numba
from fedcore.stacked import OneLayer, brought
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


def one_layer_of(task: Task) -> OneLayer | None:
    """The linear layer with a bias that a model is, if it is one and compiled code can run here.

    It computes what such a layer computes, so kinds that only inherit from it, hooks, and layers
    of which something is frozen or computed are left to the model itself.
    """
    model = task.model
    one: OneLayer | None = OneLayer(model) if type(model) is nn.Linear else None
    one = one or brought(model, "one_layer")
    fits = (
        one is not None
        and type(one.layer) is nn.Linear
        and one.layer.bias is not None
        and all(p.requires_grad and p.dtype == torch.float32 for p in model.parameters())
        and not has_hooks(model)
        and have_numba()
    )
    return one if fits else None


class LinearExecutor:
    """Trains clients of a linear model in compiled loops, on the CPU."""

    def __init__(
        self,
        task: Task,
        clients: Mapping[ClientId, ClientData],
        settings: TrainingSettings,
        *,
        threads: int = 1,
    ) -> None:
        """Bind the data; a client's is looked at when it trains."""
        one = one_layer_of(task)
        self._names = [name for name, _ in task.model.named_parameters()]
        self._sigmoid = one is not None and one.sigmoid
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
            queue = sorted(
                range(len(assignments)), key=lambda place: self._rank(assignments[place])
            )
            running = {
                place: pool.submit(self._train, params, assignments[place]) for place in queue
            }
            return [running[place].result() for place in range(len(assignments))]
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
        from fedcore.client.executors.linear_kernel import train_linear

        settings, plan, shift = self._settings, assignment.plan, assignment.shift
        if waits_for_gradients(plan) or settings.measure_full_gradient:
            return self._plainly(params, assignment)
        x, y = _arrays(self._clients[assignment.client_id])
        job = Job(assignment, len(y), settings.batch_size, self._selections)
        # Phases are one tape: none of them waits for the model.
        phases: list[Train] = []
        while (now := job.next()) is not None:
            phases += [now] if isinstance(now, Train) else []
        weight, bias = (params[name].cpu().numpy().copy() for name in self._names)
        shift_weight, shift_bias = np.empty((0, 0), np.float32), np.empty(0, np.float32)
        if shift is not None:
            shift_weight, shift_bias = (shift[name].cpu().numpy() for name in self._names)
        sums = train_linear(
            weight,
            bias,
            x,
            y,
            np.concatenate([phase.tape.index for phase in phases]),
            np.concatenate([phase.tape.coefficient for phase in phases]),
            settings.learning_rate,
            plan.prox_mu,
            plan.step_scale,
            shift_weight,
            shift_bias,
            phases[0].first_epoch,
            self._sigmoid,
        )
        job.note_losses(torch.tensor(sums, dtype=torch.float64))
        trained = zip(self._names, (weight, bias), strict=True)
        return job.answer({n: torch.from_numpy(v).to(params[n].device) for n, v in trained})

    def _plainly(self, params: Params, assignment: Assignment) -> LocalUpdate:
        """By the plain loop, out of whose backward passes gradient proxies come.

        A thread has its own: a module that is called with parameters swaps its own for them.
        """
        if not hasattr(self._own, "plain"):
            task = self._task.on(torch.device("cpu"))
            self._own.plain = SequentialExecutor(
                task, self._clients, self._settings, self._selections
            )
        plain: SequentialExecutor = self._own.plain
        return plain.train(params, assignment)


def _arrays(data: ClientData) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The flat arrays that the loop reads; views, where the samples are stored like that."""
    x, y = data.take(slice(None))
    x, y = x.flatten(1).to("cpu", torch.float32), y.to("cpu", torch.int64)
    return x.contiguous().numpy(), y.numpy()
