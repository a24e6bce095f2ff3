"""The plain executor: one client after another, one step after another.

It is what a real client process runs, and the twin every faster executor is tested against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedcore.client.coresets import (
    GRADIENTS_FIRST,
    Coresets,
    Watched,
    asks_nothing_of_the_model,
)
from fedcore.client.gradient_error import full_gradient_error
from fedcore.client.schedule import BatchSchedule, Samples, schedule
from fedcore.client.selections import Selections
from fedcore.client.step import Batch, StepRule, step, step_and_watch
from fedcore.coreset.collect import head_gradients
from fedcore.coreset.proxies import HeadGradients
from fedcore.errors import BadOption
from fedcore.seeding import stream
from fedcore.task import Task
from fedcore.types import (
    Assignment,
    ClientData,
    ClientId,
    LocalUpdate,
    Params,
    Phase,
    SelectionTime,
    TrainingSettings,
)


class SequentialExecutor:
    """Trains every assignment in turn."""

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
        """Algorithm 1, lines 6 to 12, for one client."""
        data = self._clients[assignment.client_id]
        phases = assignment.plan.phases
        rule = StepRule(self._settings.learning_rate, assignment.plan.prox_mu, anchor=params)
        update = LocalUpdate(assignment.client_id, params, len(data))
        watched: Watched | None = None
        for number, phase in enumerate(phases):
            if phase.forward_price is not None:
                watched = self._scan(update.params, data)
                continue
            samples = self._selections.begin(assignment, number, watched)()
            if phase.coreset is not None:
                update = measured(self._task, update, data, samples, self._settings)
            tape = phase_schedule(assignment, number, samples, self._settings.batch_size)
            walk = self._walk_and_watch if must_watch(phases, number) else self._walk
            trained, watched = walk(update.params, rule, data, tape)
            update = replace(update, params=trained)
        return update

    def _scan(self, params: Params, data: ClientData) -> Watched:
        """A forward pass on everything, for the last layer's gradients alone (section 4.4 b)."""
        size = self._settings.batch_size
        starts = range(0, len(data), size)
        batches = (data.take(slice(start, start + size)) for start in starts)
        return self._watched(head_gradients(self._task, params, batches), params)

    def _watched(self, gradients: HeadGradients, params: Params) -> Watched:
        weight = self._task.head_weight(params).detach()
        return Watched(gradients, weight, self._task.head_has_bias)

    def _walk(
        self, params: Params, rule: StepRule, data: ClientData, tape: BatchSchedule
    ) -> tuple[Params, None]:
        for number in range(len(tape)):
            batch, _ = _batch(data, tape, number)
            params = step(self._task, params, batch, rule)
        return params, None

    def _walk_and_watch(
        self, params: Params, rule: StepRule, data: ClientData, tape: BatchSchedule
    ) -> tuple[Params, Watched]:
        """Walk, and keep each sample's last-layer gradient: no pass more than ``_walk``."""
        parts: list[HeadGradients] = []
        order: list[Tensor] = []
        for number in range(len(tape)):
            batch, chosen = _batch(data, tape, number)
            params, seen = step_and_watch(self._task, params, batch, rule)
            parts.append(seen)
            order.append(chosen)
        # One epoch on everything meets every sample once: put the rows back in sample order.
        gradients = HeadGradients.gather(parts, torch.cat(order))
        return params, self._watched(gradients, params)


def measured(
    task: Task,
    update: LocalUpdate,
    data: ClientData,
    samples: Samples,
    settings: TrainingSettings,
) -> LocalUpdate:
    """Note the size of a coreset and its ε; on the whole model only where asked for."""
    full = None
    if settings.measure_full_gradient:
        full = full_gradient_error(task, update.params, data, samples)
    return replace(
        update,
        coreset_size=len(samples.indices),
        gradient_error=samples.gradient_error,
        full_gradient_error=full,
    )


def must_watch(phases: Sequence[Phase], number: int) -> bool:
    """Whether phase ``number`` has to yield gradients for the coreset of the one after it.

    Raises:
        BadOption: If it does not meet every sample once, which is what one gradient each takes.
    """
    following = phases[number + 1].coreset if number + 1 < len(phases) else None
    needed = following is not None and not asks_nothing_of_the_model(following)
    if needed and (phases[number].coreset is not None or phases[number].epochs != 1):
        raise BadOption(GRADIENTS_FIRST)
    return needed


def phase_schedule(
    assignment: Assignment, phase: int, samples: Samples, batch_size: int
) -> BatchSchedule:
    """The batches of one phase, from the random stream that belongs to it; steps to scale."""
    path = assignment.path("shuffle", phase)
    epochs = assignment.plan.phases[phase].epochs
    tape = schedule(samples, epochs, batch_size, stream(assignment.seed, *path))
    scale = assignment.plan.step_scale
    return tape if scale == 1.0 else replace(tape, coefficient=tape.coefficient * np.float32(scale))


def _batch(data: ClientData, tape: BatchSchedule, number: int) -> tuple[Batch, Tensor]:
    """The real rows of step ``number``, and which samples they are."""
    real = tape.coefficient[number] > 0
    chosen = torch.from_numpy(tape.index[number][real])
    coefficient = torch.from_numpy(tape.coefficient[number][real])
    x, y = data.take(chosen)
    return Batch(x, y, coefficient.to(x.device)), chosen
