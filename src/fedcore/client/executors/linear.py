"""Linear classifiers in compiled loops on threads; as ``SequentialExecutor`` up to rounding."""

import os
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from fedcore.client.coresets import Clients
from fedcore.client.executors.blockwise import BlockwiseExecutor
from fedcore.client.executors.sequential import train_plainly
from fedcore.client.job import Job, Train, waits_for_gradients
from fedcore.compiled import have_numba
from fedcore.stacked import OneLayer, brought
from fedcore.task import Task, has_hooks
from fedcore.types import Assignment, LocalUpdate, Params, TrainingSettings


def one_layer_of(task: Task) -> OneLayer | None:
    """The linear layer with a bias that a model is, if it is nothing else and numba is there."""
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


class LinearExecutor(BlockwiseExecutor):
    """Trains clients of a linear model in compiled loops, on the CPU."""

    def __init__(
        self, task: Task, clients: Clients, settings: TrainingSettings, *, threads: int = 1
    ) -> None:
        """Bind the model and the data; ``threads`` train clients and choose coresets, 0 is all."""
        threads = threads or os.cpu_count() or 1
        choosing = 0 if threads == 1 else threads
        super().__init__(task, clients, settings, threads=threads, choosing=choosing)
        one = one_layer_of(task)
        self._names = [name for name, _ in task.model.named_parameters()]
        self._sigmoid = one is not None and one.sigmoid

    def _rank(self, assignment: Assignment) -> tuple[int, ...]:
        """Who has a coreset, then who gets one first, the largest; of each the longest first."""
        missing = self._coresets.missing(assignment)
        work = assignment.plan.work(len(self._clients[assignment.client_id]))
        return missing > 0, -missing, -work

    def _train(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        (assignment,) = assignments
        data = self._clients[assignment.client_id].to(next(iter(params.values())).device)
        task = self._of_this_thread(lambda: self._task.on(torch.device("cpu")))
        job = Job(assignment, task, data, self._settings, self._coresets)
        settings, waits = self._settings, waits_for_gradients(assignment.plan)
        # Gradient proxies come out of the backward passes of the plain loop.
        if waits or settings.measure_full_gradient or not settings.plain:
            return [train_plainly(params, job)]
        return [self._compiled(params, job)]

    def _compiled(self, params: Params, job: Job) -> LocalUpdate:
        from fedcore.client.executors.linear_kernel import train_linear

        plan, shift = job.assignment.plan, job.assignment.shift
        # Phases are one tape: none of them waits for the model.
        phases: list[Train] = []
        while (now := job.next(params)) is not None:
            phases += [now] if isinstance(now, Train) else []
        weight, bias = (params[name].cpu().numpy().copy() for name in self._names)
        shift_weight, shift_bias = np.empty((0, 0), np.float32), np.empty(0, np.float32)
        if shift is not None:
            shift_weight, shift_bias = (shift[name].cpu().numpy() for name in self._names)
        inputs, labels = job.data.take(slice(None))
        x = inputs.flatten(1).to("cpu", torch.float32).contiguous().numpy()
        y = labels.to("cpu", torch.int64).numpy()
        index = np.concatenate([phase.tape.index for phase in phases])
        coefficient = np.concatenate([phase.tape.coefficient for phase in phases])
        rate = self._settings.learning_rate_at(job.assignment.base_version)
        first_epoch = phases[0].first_epoch
        rule = (rate, plan.prox_mu, plan.step_scale, shift_weight, shift_bias)
        sums = train_linear(
            weight, bias, x, y, index, coefficient, *rule, first_epoch, self._sigmoid
        )
        job.note_losses(torch.tensor(sums, dtype=torch.float64))
        trained = zip(self._names, (weight, bias), strict=True)
        return job.answer({n: torch.from_numpy(v).to(params[n].device) for n, v in trained})
