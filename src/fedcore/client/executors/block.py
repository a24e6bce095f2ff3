"""A block of clients trained side by side, each on its own tape, until the last has finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.client.coresets import Coresets
from fedcore.client.executors.pool import Pool
from fedcore.client.executors.steps import LONGEST_RUN, Steps, Tape
from fedcore.client.job import Job, Rest, Train, loss_sums
from fedcore.coreset.proxies import HeadGradients
from fedcore.task import Task
from fedcore.types import Assignment, ClientData, LocalUpdate, Params, TrainingSettings

LONGEST_WATCH = 64  # steps between two looks at the clients, where each leaves gradients behind
CROWD = 0.75  # compact when fewer than this share of the slots are still at work


@dataclass(slots=True)
class _Client:
    """A job in a slot: how far it is on its tape, how long it rests, what it has seen."""

    job: Job
    first_row: int  # of its samples in the pool
    train: Train | None = None
    position: int = 0
    rest: int = 0  # steps of the others until it goes on
    seen: list[HeadGradients] = field(default_factory=list)
    order: list[Tensor] = field(default_factory=list)

    @property
    def remaining(self) -> int:
        """Steps left on the present tape."""
        return 0 if self.train is None else len(self.train.tape) - self.position

    def next_steps(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Samples and coefficients [count, batch] of the steps to come, without moving on."""
        assert self.train is not None  # it has steps left
        part = slice(self.position, self.position + count)
        return self.train.tape.index[part], self.train.tape.coefficient[part]

    def watch(self, seen: HeadGradients, count: int) -> None:
        """Keep what the next steps' rows [count · batch] showed, those of padding left out."""
        index, coefficient = self.next_steps(count)
        real = np.flatnonzero(coefficient.ravel() > 0)
        rows = torch.from_numpy(real).to(seen.losses.device)
        self.seen.append(HeadGradients(seen.residuals[rows], seen.inputs[rows], seen.losses[rows]))
        self.order.append(torch.from_numpy(index.ravel()[real]))


class Block:
    """Clients in slots; finished ones leave, and the others move up when it pays."""

    def __init__(
        self,
        task: Task,
        settings: TrainingSettings,
        coresets: Coresets,
        pool: Pool,
        steps: Steps,
    ) -> None:
        """Bind the model, what phases ask for, what holds the samples and what takes the steps."""
        self._task = task
        self._settings = settings
        self._coresets = coresets
        self._pool = pool
        self._steps = steps
        self._slots: list[_Client | None] = []

    def train(
        self, params: Params, assignments: Sequence[Assignment], data: Sequence[ClientData]
    ) -> list[LocalUpdate]:
        """Train every assignment from ``params``; answers lie where those do."""
        home = next(iter(params.values())).device
        placed = self._pool.fill(data, [assignment.client_id for assignment in assignments])
        clients = [
            _Client(Job(assignment, self._task, own, self._settings, self._coresets), first)
            for assignment, (first, own) in zip(assignments, placed, strict=True)
        ]
        self._slots = list(clients)
        self._steps.start(params, assignments)
        trained: dict[int, Params] = {}
        while True:
            for slot, client in enumerate(self._slots):
                if client is not None and not self._is_busy(slot, client):
                    own = self._steps.params_of(slot)
                    trained[id(client)] = {n: v.clone().to(home) for n, v in own.items()}
                    self._slots[slot] = None
            present = [client for client in self._slots if client is not None]
            if not present:
                return [client.job.answer(trained[id(client)]) for client in clients]
            self._compact(len(present))
            self._run(present)

    def _is_busy(self, slot: int, client: _Client) -> bool:
        """Whether a client has steps to take or to rest; one at the end of its tape goes on."""
        if client.remaining or client.rest:
            return True
        seen = None
        if client.seen:
            seen = HeadGradients.gather(client.seen, torch.cat(client.order))
            client.seen, client.order = [], []
        now = client.job.next(self._steps.params_of(slot), seen)
        if isinstance(now, Rest):
            client.rest = now.steps
        else:
            client.train, client.position = now, 0
        return now is not None

    def _compact(self, active: int) -> None:
        if active <= CROWD * len(self._slots):
            kept = [slot for slot, client in enumerate(self._slots) if client is not None]
            self._steps.keep(kept)
            self._slots = [self._slots[slot] for slot in kept]

    def _run(self, present: Sequence[_Client]) -> None:
        """Step until the first client comes to the end of its tape or of its rest."""
        count = min(client.remaining or client.rest for client in present)
        watching = [c for c in present if c.remaining and c.train is not None and c.train.watch]
        if any(client.remaining for client in present):
            count = min(count, LONGEST_WATCH if watching else LONGEST_RUN)
            self._step(count, self._task.head_width if watching else None)
        # Where nobody has anything to do, the first to end its rest need not wait for steps.
        for client in present:
            if client.remaining:
                client.position += count
            else:
                client.rest -= count

    def _step(self, count: int, watch: int | None) -> None:
        """Take ``count`` steps with everybody who has a tape, and note what they show."""
        size = self._settings.batch_size
        rows = np.zeros((count, len(self._slots), size), np.int64)
        coefficient = np.zeros((count, len(self._slots), size), np.float32)
        noted = np.zeros((count, len(self._slots), size), np.bool_)
        for slot, client in enumerate(self._slots):
            if client is None:
                continue
            # Who rests sees its own sample: another's might overflow, and 0 · NaN is NaN.
            rows[:, slot] = client.first_row
            if client.remaining and client.train is not None:
                index, coefficient[:, slot] = client.next_steps(count)
                rows[:, slot] += index
                first = max(0, client.train.first_epoch - client.position)
                noted[:first, slot] = coefficient[:first, slot] > 0
        tape = Tape(self._on_device(rows), self._on_device(coefficient))
        losses, shown = self._steps.run(tape, watch)
        sums = None
        if noted.any():
            first_losses = torch.where(self._on_device(noted), losses, 0.0)
            sums = loss_sums(first_losses.transpose(0, 1).flatten(1))  # [K, 2]
        for slot, client in enumerate(self._slots):
            if client is None or client.train is None or not client.remaining:
                continue
            if sums is not None and noted[:, slot].any():
                client.job.note_losses(sums[slot])
            if shown and client.train.watch:
                client.watch(_of_slot(shown, slot, size), count)

    def _on_device(self, values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(values).to(self._pool.device)


def _of_slot(shown: Sequence[HeadGradients], slot: int, batch: int) -> HeadGradients:
    """What one client's rows showed over some steps: [steps · batch, ...]."""
    rows = slice(slot * batch, (slot + 1) * batch)
    return HeadGradients(
        torch.cat([seen.residuals[rows] for seen in shown]),
        torch.cat([seen.inputs[rows] for seen in shown]),
        torch.cat([seen.losses[rows] for seen in shown]),
    )
