"""The plain executor: one client after another, one step after another.

It is what a real client process runs, and the twin every faster executor is tested against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedcore.coreset.proxies import LOGITS
from fedcore.local.coresets import Coresets, is_static
from fedcore.local.schedule import BatchSchedule, Samples, schedule
from fedcore.local.step import Batch, HeadGradients, StepRule, step, step_and_watch
from fedcore.seeding import stream
from fedcore.task import Task
from fedcore.types import (
    Assignment,
    ClientData,
    ClientId,
    CoresetSpec,
    LocalUpdate,
    Params,
    TrainingSettings,
)


class SequentialExecutor:
    """Trains every assignment in turn."""

    def __init__(
        self, task: Task, clients: Mapping[ClientId, ClientData], settings: TrainingSettings
    ) -> None:
        """Bind the model's recipe, the data and how steps are taken."""
        self._task = task
        self._clients = clients
        self._settings = settings
        self._coresets = Coresets(clients)

    def run(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        """Train every assignment from ``params``."""
        return [self._train(params, assignment) for assignment in assignments]

    def _train(self, params: Params, assignment: Assignment) -> LocalUpdate:
        """Algorithm 1, lines 6 to 12, for one client."""
        data = self._clients[assignment.client_id]
        phases = assignment.plan.phases
        rule = StepRule(self._settings.learning_rate, assignment.plan.prox_mu, anchor=params)
        gradients: Tensor | None = None
        for number in range(len(phases)):
            samples = self._coresets.for_phase(assignment, number, gradients)
            tape = phase_schedule(assignment, number, samples, self._settings.batch_size)
            following = phases[number + 1].coreset if number + 1 < len(phases) else None
            if following is None or is_static(following):
                params = self._walk(params, rule, data, tape)
            else:
                params, gradients = self._walk_and_watch(params, rule, data, tape, following)
        return LocalUpdate(assignment.client_id, params, len(data))

    def _walk(
        self, params: Params, rule: StepRule, data: ClientData, tape: BatchSchedule
    ) -> Params:
        for number in range(len(tape)):
            batch, _ = _batch(data, tape, number)
            params = step(self._task, params, batch, rule)
        return params

    def _walk_and_watch(
        self,
        params: Params,
        rule: StepRule,
        data: ClientData,
        tape: BatchSchedule,
        following: CoresetSpec,
    ) -> tuple[Params, Tensor]:
        """Walk, and keep each sample's last-layer gradient: no pass more than ``_walk``."""
        rows: list[Tensor] = []
        order: list[Tensor] = []
        for number in range(len(tape)):
            batch, chosen = _batch(data, tape, number)
            weight = self._task.head_weight(params)
            params, seen = step_and_watch(self._task, params, batch, rule)
            rows.append(_proxy(following.proxy, seen, weight))
            order.append(chosen)
        gradients = torch.cat(rows)
        # One epoch on everything meets every sample once: put the rows back in sample order.
        gradients[torch.cat(order)] = gradients.clone()
        return params, gradients


def phase_schedule(
    assignment: Assignment, phase: int, samples: Samples, batch_size: int
) -> BatchSchedule:
    """The batches of one phase, from the random stream that belongs to it."""
    path = ("shuffle", assignment.round_number, assignment.client_id, phase)
    epochs = assignment.plan.phases[phase].epochs
    return schedule(samples, epochs, batch_size, stream(assignment.seed, *path))


def _batch(data: ClientData, tape: BatchSchedule, number: int) -> tuple[Batch, Tensor]:
    """The real rows of step ``number``, and which samples they are."""
    real = tape.coefficient[number] > 0
    chosen = torch.from_numpy(tape.index[number][real])
    coefficient = torch.from_numpy(tape.coefficient[number][real])
    return Batch(*data.take(chosen), coefficient), chosen


def _proxy(name: str, seen: HeadGradients, weight: Tensor) -> Tensor:
    """One row per sample: dL/da, or dL/dz = dL/da W."""
    return seen.residuals if name == LOGITS else seen.residuals @ weight
