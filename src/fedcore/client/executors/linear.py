"""Chains of linear layers in compiled loops on threads; the plain loop's answers up to rounding."""

import os
from collections.abc import Sequence

import numpy as np
import torch
from torch.nn.utils import parameters_to_vector as joined

from fedcore.client.coresets import Clients
from fedcore.client.executors.blockwise import BlockwiseExecutor
from fedcore.client.executors.chain import chain_of
from fedcore.client.executors.sequential import train_plainly
from fedcore.client.job import Job, Rest, waits_for_gradients
from fedcore.coreset.proxies import HeadGradients
from fedcore.task import Task, trained_names
from fedcore.types import Assignment, LocalUpdate, Params, TrainingSettings


class LinearExecutor(BlockwiseExecutor):
    """Trains clients of a model that is such a chain in compiled loops, on the CPU."""

    def __init__(
        self, task: Task, clients: Clients, settings: TrainingSettings, *, threads: int = 1
    ) -> None:
        """Bind the model and the data; ``threads`` train clients and choose coresets, 0 is all."""
        threads = threads or os.cpu_count() or 1
        choosing = 0 if threads == 1 else threads
        super().__init__(task, clients, settings, threads=threads, choosing=choosing)
        chain = chain_of(task, clients)
        assert chain is not None  # as ``by_name`` has found
        self._chain = chain

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
        waits = waits_for_gradients(assignment.plan)
        weights = [value for value in params.values() if value.dim() > 1]
        # Of one layer, what goes by gradients is as ever: published results keep their last digit.
        alone = len(weights) == 1 and (waits or self._settings.measure_full_gradient)
        elsewhere = waits and task.head_weight(params) is not weights[-1]
        plainly = alone or elsewhere or self._settings.adam
        return [train_plainly(params, job) if plainly else self._compiled(params, job)]

    def _compiled(self, params: Params, job: Job) -> LocalUpdate:
        from fedcore.client.executors.linear_kernel import train_chain

        plan, shift, how = job.assignment.plan, job.assignment.shift, self._settings
        names = [*params] if plan.trained_share == 1 else trained_names(params, plan.trained_share)
        kept = [value for name, value in params.items() if name not in names]
        flat = joined([value.cpu() for value in params.values()])
        parts = torch.split(flat, [value.numel() for value in params.values()])
        views = {n: part.view(params[n].shape) for n, part in zip(params, parts, strict=True)}
        w, added = flat.numpy(), np.empty(0, np.float32)
        if shift is not None:
            added = joined([shift[name].cpu() for name in params]).numpy()
        memory = np.zeros((0 if how.plain else 2, len(w)), np.float32)
        rate = how.learning_rate_at(job.assignment.base_version)
        rates = float(rate), float(plan.prox_mu), float(plan.step_scale)
        rest = float(how.momentum), float(how.weight_decay), float(how.clip_norm)
        rule = w.copy(), added, memory, rates, rest
        inputs, labels = job.data.take(slice(None))
        x = inputs.flatten(1).to("cpu", torch.float32).contiguous().numpy()
        y = labels.to("cpu", torch.int64).numpy()
        features, classes = self._chain[-1, :2].astype(int)
        seen = None
        while (now := job.next(views, seen)) is not None:
            if isinstance(now, Rest):
                continue  # there is nobody else to train
            room = len(x) if now.watch else 0
            shapes = (room, classes), (room, features), room
            found = tuple(np.empty(shape, np.float32) for shape in shapes)
            tape = now.tape.index, np.ascontiguousarray(now.tape.coefficient)
            counts = now.first_epoch, sum(v.dim() > 1 for v in kept), sum(v.numel() for v in kept)
            sums = train_chain(w, self._chain, (x, y), tape, rule, counts, found)
            if now.first_epoch:
                job.note_losses(torch.tensor(sums, dtype=torch.float64))
            seen = HeadGradients(*map(torch.from_numpy, found)) if now.watch else None
        return job.answer({name: view.to(params[name].device) for name, view in views.items()})
