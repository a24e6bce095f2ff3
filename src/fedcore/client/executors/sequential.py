"""The plain executor: one client after another, one step after another.

It is what a real client process runs, and the twin every faster executor is tested against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedcore.client.coresets import Coresets, Watched
from fedcore.client.gradient_error import full_gradient_error
from fedcore.client.job import Job, Look, Train, look, loss_sums, watched_at
from fedcore.client.schedule import BatchSchedule
from fedcore.client.selections import Selections
from fedcore.client.step import Batch, StepRule, step
from fedcore.coreset.proxies import HeadGradients
from fedcore.seeding import stream
from fedcore.task import Task
from fedcore.types import (
    Assignment,
    ClientData,
    ClientId,
    LocalUpdate,
    Params,
    SelectionTime,
    TrainingSettings,
)


class SequentialExecutor:
    """Trains every assignment in turn, where the parameters lie that it is given."""

    def __init__(
        self,
        task: Task,
        clients: Mapping[ClientId, ClientData],
        settings: TrainingSettings,
        selections: Selections | None = None,
    ) -> None:
        """Bind the model's recipe, the data, how steps are taken, and who chooses coresets."""
        self._task = task
        self._clients = clients
        self._settings = settings
        self._selections = selections or Selections(Coresets(clients))

    @property
    def selection(self) -> SelectionTime:
        """What choosing coresets took so far."""
        return self._selections.time

    def expect(self, assignments: Sequence[Assignment]) -> None:
        """Do nothing: everything has its turn."""

    def run(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        """Train every assignment from ``params``.

        What a model draws while it trains, as dropout does, has a stream of its own per round and
        client; the caller's random numbers stay as they are.
        """
        device = next(iter(params.values())).device
        updates = []
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            for assignment in assignments:
                draws = stream(assignment.seed, *assignment.path("model"))
                torch.manual_seed(int(draws.integers(1 << 63)))
                updates.append(self.train(params, assignment))
        return updates

    def close(self) -> None:
        """Drop the coresets that nobody has begun to choose, where threads choose them."""
        self._selections.close()

    def train(self, params: Params, assignment: Assignment) -> LocalUpdate:
        """Follow one client's plan."""
        like = next(iter(params.values()))
        data = self._clients[assignment.client_id].to(like.device)
        plan, shift = assignment.plan, assignment.shift
        if shift is not None:
            shift = {name: value.to(like.device) for name, value in shift.items()}
        rule = StepRule(self._settings.learning_rate, plan.prox_mu, params, plan.step_scale, shift)
        job = Job(assignment, len(data), self._settings.batch_size, self._selections)
        watched: Watched | None = None
        while (now := job.next(watched)) is not None:
            watched = None
            if isinstance(now, Look):
                watched = look(self._task, params, data)
            elif isinstance(now, Train):
                if now.coreset is not None and self._settings.measure_full_gradient:
                    job.full_gradient_error = full_gradient_error(
                        self._task, params, data, now.coreset
                    )
                params, watched = self._walk(params, rule, data, now, job)
        return job.answer(params)

    def _walk(
        self, params: Params, rule: StepRule, data: ClientData, now: Train, job: Job
    ) -> tuple[Params, Watched | None]:
        """Take the steps of a tape; watching takes no pass more."""
        first_losses: list[Tensor] = []
        parts: list[HeadGradients] = []
        order: list[Tensor] = []
        for number in range(len(now.tape)):
            batch, chosen = _batch(data, now.tape, number)
            params, losses, seen = step(self._task, params, batch, rule, watch=now.watch)
            if number < now.first_epoch:
                first_losses.append(losses)
            if seen is not None:
                parts.append(seen)
                order.append(chosen)
        if first_losses:
            job.note_losses(loss_sums(torch.cat(first_losses)))
        if not now.watch:
            return params, None
        # One epoch on everything meets every sample once: put the rows back in sample order.
        gradients = HeadGradients.gather(parts, torch.cat(order))
        return params, watched_at(self._task, params, gradients)


def _batch(data: ClientData, tape: BatchSchedule, number: int) -> tuple[Batch, Tensor]:
    """The real rows of step ``number``, and which samples they are."""
    real = tape.coefficient[number] > 0
    chosen = torch.from_numpy(tape.index[number][real])
    coefficient = torch.from_numpy(tape.coefficient[number][real])
    x, y = data.take(chosen)
    return Batch(x, y, coefficient.to(x.device)), chosen
