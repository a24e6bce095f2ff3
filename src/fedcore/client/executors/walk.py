"""One client's way through its plan: which tape it is on, and what it has seen so far.

The decisions are those of ``SequentialExecutor``; only who takes the steps differs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.client.coresets import Watched, asks_nothing_of_the_model
from fedcore.client.executors.sequential import measured, must_watch, phase_schedule
from fedcore.client.schedule import BatchSchedule
from fedcore.client.selections import Pending, Selections
from fedcore.coreset.collect import head_gradients
from fedcore.coreset.proxies import NONE, HeadGradients
from fedcore.task import Task
from fedcore.types import Assignment, ClientData, LocalUpdate, Params, TrainingSettings

SCAN_CHUNK = 128  # samples of a forward-only pass at a time: it changes no result

# A client whose coreset is being chosen rests for this share of the steps of one epoch, ready or
# not. Were it to go on as soon as the choice is there, timing would say who is stepped together
# with whom, and with that how libraries round.
REST = 1 / 8


@dataclass(frozen=True, slots=True)
class Setting:
    """What all clients of a block share."""

    task: Task
    selections: Selections
    settings: TrainingSettings


class Walk:
    """A client between two steps."""

    def __init__(self, assignment: Assignment, data: ClientData, first_row: int) -> None:
        """Stand before the first phase.

        Args:
            assignment: the client's plan.
            data: its samples, on the device that trains.
            first_row: where its samples begin in the pool of the block.
        """
        self.assignment = assignment
        self.first_row = first_row
        self.watching = False
        self._data = data
        self._phase = -1
        self._position = 0
        self._tape = BatchSchedule(np.empty((0, 0), np.int64), np.empty((0, 0), np.float32))
        self._watched: Watched | None = None
        self._seen: list[HeadGradients] = []
        self._order: list[Tensor] = []
        self._pending: Pending | None = None
        self._early: dict[int, Pending] = {}
        self._update = LocalUpdate(assignment.client_id, {}, len(data))
        self.rest = 0  # steps of the others until this client goes on

    @property
    def remaining(self) -> int:
        """Steps left on the present tape."""
        return len(self._tape) - self._position

    def next_steps(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Samples and coefficients [count, batch] of the steps to come, without moving on."""
        part = slice(self._position, self._position + count)
        return self._tape.index[part], self._tape.coefficient[part]

    def move(self, count: int, seen: HeadGradients | None) -> None:
        """Note that ``count`` steps were taken, and what they showed: rows [count · batch]."""
        if self.watching and seen is not None:
            index, coefficient = self.next_steps(count)
            real = np.flatnonzero(coefficient.ravel() > 0)
            rows = torch.from_numpy(real).to(seen.losses.device)
            self._seen.append(
                HeadGradients(seen.residuals[rows], seen.inputs[rows], seen.losses[rows])
            )
            self._order.append(torch.from_numpy(index.ravel()[real]))
        self._position += count

    def look_ahead(self, setting: Setting) -> None:
        """Begin to choose the coresets of later phases that need no gradients."""
        for number, phase in enumerate(self.assignment.plan.phases):
            spec = phase.coreset
            if number > 0 and spec is not None and asks_nothing_of_the_model(spec):
                self._early[number] = setting.selections.begin(self.assignment, number)

    def go_on(self, params: Params, setting: Setting) -> bool:
        """Take the next tape, or rest while it is chosen; False where there is none.

        Args:
            params: the client's own, now; they do not move while it rests.
            setting: what the block shares.
        """
        if self._pending is None and not self._next_phase(params, setting):
            return False
        if self.rest == 0:
            self._take_tape(params, setting)
        return True

    def _next_phase(self, params: Params, setting: Setting) -> bool:
        phases = self.assignment.plan.phases
        if self.watching:
            gradients = HeadGradients.gather(self._seen, torch.cat(self._order))
            self._watched = _watched(setting.task, gradients, params)
            self._seen, self._order, self.watching = [], [], False
        elif self._phase >= 0 and phases[self._phase].forward_price is None:
            self._watched = None
        self._phase += 1
        while self._phase < len(phases) and phases[self._phase].forward_price is not None:
            self._watched = self._scan(params, setting)
            self._phase += 1
        if self._phase >= len(phases):
            return False
        self._begin(setting)
        return True

    def update(self, params: Params) -> LocalUpdate:
        """The client's answer."""
        return replace(self._update, params=params)

    def _begin(self, setting: Setting) -> None:
        """Begin to choose what the phase trains on, and rest if that takes time."""
        number, spec = self._phase, self.assignment.plan.phases[self._phase].coreset
        if number in self._early:
            self._pending = self._early.pop(number)
            return
        self._pending = setting.selections.begin(self.assignment, number, self._watched)
        if spec is not None and spec.proxy != NONE:
            steps = -(-len(self._data) // setting.settings.batch_size)
            self.rest = math.ceil(REST * steps)

    def _take_tape(self, params: Params, setting: Setting) -> None:
        assert self._pending is not None  # a phase was begun
        number, phases = self._phase, self.assignment.plan.phases
        samples = self._pending()
        self._pending = None
        if phases[number].coreset is not None:
            now = replace(self._update, params=params)
            self._update = measured(setting.task, now, self._data, samples, setting.settings)
        batch_size = setting.settings.batch_size
        self._tape = phase_schedule(self.assignment, number, samples, batch_size)
        self._position = 0
        self.watching = must_watch(phases, number)

    def _scan(self, params: Params, setting: Setting) -> Watched:
        """A forward pass on everything (section 4.4 b); one client's samples fill a device."""
        starts = range(0, len(self._data), SCAN_CHUNK)
        batches = (self._data.take(slice(start, start + SCAN_CHUNK)) for start in starts)
        return _watched(setting.task, head_gradients(setting.task, params, batches), params)


def _watched(task: Task, gradients: HeadGradients, params: Params) -> Watched:
    weight = task.head_weight(params).detach().clone()  # the parameters move on in place
    return Watched(gradients, weight, task.head_has_bias)


def steps_of(assignment: Assignment, num_samples: int, batch_size: int) -> int:
    """About how many steps a plan takes: what clients are sorted by."""
    total = 0
    for phase in assignment.plan.phases:
        size = num_samples if phase.coreset is None else min(phase.coreset.budget, num_samples)
        total += 0 if phase.forward_price is not None else phase.epochs * -(-size // batch_size)
    return total
