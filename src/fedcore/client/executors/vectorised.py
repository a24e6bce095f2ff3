"""The vectorised executor: a cohort trained side by side, in blocks that memory can hold.

Equal to ``SequentialExecutor`` up to the rounding of float32 sums. Clients are sorted by how much
they train on before they are cut into blocks, so that those of a block finish together.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.client.coresets import Clients, Coresets
from fedcore.client.executors.blockwise import BlockwiseExecutor
from fedcore.client.executors.stacked_model import form_of
from fedcore.client.executors.steps import LONGEST_RUN, Pool, Steps, Tape
from fedcore.client.job import Job, Rest, Train, loss_sums
from fedcore.client.schedule import BatchSchedule
from fedcore.coreset.proxies import HeadGradients
from fedcore.task import Task
from fedcore.types import Assignment, ClientData, LocalUpdate, Params, TrainingSettings

LONGEST_WATCH = 64  # steps between two looks at the clients, where each leaves gradients behind
CROWD = 0.75  # compact when fewer than this share of the slots are still at work
NOTHING = Train(BatchSchedule(np.empty((0, 0), np.int64), np.empty((0, 0), np.float32)), False, 0)


class VectorisedExecutor(BlockwiseExecutor):
    """Trains clients in blocks; on a CPU blocks run side by side, one core each."""

    def __init__(
        self,
        task: Task,
        clients: Clients,
        settings: TrainingSettings,
        *,
        device: torch.device | str = "cpu",
        block: int = 100,
        threads: int = 1,
    ) -> None:
        """Bind all; ``threads`` train blocks on a CPU and choose coresets, 0: one per core."""
        self._device = torch.device(device)
        threads = threads or os.cpu_count() or 1
        blocks = threads if self._device.type == "cpu" else 1
        # A block of one client has nobody to train while it chooses.
        alone = block == 1 or (self._device.type == "cpu" and threads == 1)
        choosing = 0 if alone else threads
        super().__init__(task, clients, settings, block=block, threads=blocks, choosing=choosing)

    def _rank(self, assignment: Assignment) -> tuple[int, ...]:
        """The longest first: no thread starts it when the others are done."""
        return (-assignment.plan.trained(len(self._clients[assignment.client_id])),)

    def _train(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        data = [self._clients[assignment.client_id] for assignment in assignments]
        return self._of_this_thread(self._new_block).train(params, assignments, data)

    def _new_block(self) -> "Block":
        task, pool = self._task.on(self._device), Pool(self._device)
        record = self._device.type == "cuda"
        steps = Steps(form_of(task), pool, self._settings, record=record)
        return Block(task, self._settings, self._coresets, pool, steps)


@dataclass(slots=True)
class _Client:
    """A job in a slot: how far it is on its tape, how long it rests, what it has seen."""

    job: Job
    first_row: int  # of its samples in the pool
    train: Train = NOTHING
    position: int = 0
    rest: int = 0  # steps of the others until it goes on
    seen: list[HeadGradients] = field(default_factory=list)
    order: list[Tensor] = field(default_factory=list)

    @property
    def remaining(self) -> int:
        """Steps left on the present tape."""
        return len(self.train.tape.index) - self.position

    def coming(self, count: int) -> BatchSchedule:
        """The steps to come, without moving on."""
        part = slice(self.position, self.position + count)
        return BatchSchedule(self.train.tape.index[part], self.train.tape.coefficient[part])

    def watch(self, seen: HeadGradients, count: int) -> None:
        """Keep what the next steps' rows [count · batch] showed, those of padding left out."""
        coming = self.coming(count)
        real = np.flatnonzero(coming.coefficient > 0)
        self.seen.append(seen.take(torch.from_numpy(real).to(seen.losses.device)))
        self.order.append(torch.from_numpy(coming.index.ravel()[real]))


@dataclass(slots=True)
class Block:
    """Clients in slots; finished ones leave, and the others move up when it pays."""

    task: Task
    settings: TrainingSettings
    coresets: Coresets
    pool: Pool
    steps: Steps
    _slots: list[_Client | None] = field(default_factory=list, init=False)
    _losses: list[tuple[list[tuple[int, Job]], Tensor]] = field(default_factory=list, init=False)

    def train(
        self, params: Params, assignments: Sequence[Assignment], data: Sequence[ClientData]
    ) -> list[LocalUpdate]:
        """Train every assignment from ``params``; answers lie where those do."""
        home = next(iter(params.values())).device
        placed = self.pool.fill(data, [assignment.client_id for assignment in assignments])
        clients = [
            _Client(Job(assignment, self.task, own, self.settings, self.coresets), first)
            for assignment, (first, own) in zip(assignments, placed, strict=True)
        ]
        self._slots = list(clients)
        self.steps.start(params, assignments)
        trained: dict[int, Params] = {}
        while True:
            for slot, client in enumerate(self._slots):
                if client is not None and not self._is_busy(slot, client):
                    own = self.steps.params_of(slot)
                    trained[id(client)] = {n: v.clone().to(home) for n, v in own.items()}
                    self._slots[slot] = None
            present = [client for client in self._slots if client is not None]
            if not present:
                self._note_losses()
                return [client.job.answer(trained[id(client)]) for client in clients]
            if len(present) <= CROWD * len(self._slots):
                kept = [slot for slot, client in enumerate(self._slots) if client is not None]
                self.steps.keep(kept)
                self._slots = [self._slots[slot] for slot in kept]
            self._run(present)

    def _is_busy(self, slot: int, client: _Client) -> bool:
        """Whether a client has steps to take or to rest; one at the end of its tape goes on."""
        if client.remaining or client.rest:
            return True
        seen = HeadGradients.gather(client.seen, torch.cat(client.order)) if client.seen else None
        client.seen, client.order = [], []
        now = client.job.next(self.steps.params_of(slot), seen)
        if isinstance(now, Rest):
            client.rest = now.steps
        elif now is not None:
            client.train, client.position = now, 0
        return now is not None

    def _run(self, present: Sequence[_Client]) -> None:
        """Step until the first client comes to the end of its tape or of its rest."""
        count = min(client.remaining or client.rest for client in present)
        watching = any(client.train.watch for client in present if client.remaining)
        if any(client.remaining for client in present):
            count = min(count, LONGEST_WATCH if watching else LONGEST_RUN)
            self._step(count, self.task.head_width if watching else None)
        # Where nobody has anything to do, the first to end its rest need not wait for steps.
        for client in present:
            if client.remaining:
                client.position += count
            else:
                client.rest -= count

    def _step(self, count: int, watch: int | None) -> None:
        """Take ``count`` steps with everybody who has a tape, and note what they show."""
        shape = (count, len(self._slots), self.settings.batch_size)
        coefficient, noted = np.zeros(shape, np.float32), np.zeros(shape, np.bool_)
        # Who rests sees its own sample: another's might overflow, and 0 · NaN is NaN.
        own_rows = [0 if client is None else client.first_row for client in self._slots]
        rows = np.broadcast_to(np.array(own_rows)[:, None], shape).copy()
        present = [(slot, client) for slot, client in enumerate(self._slots) if client is not None]
        training = [(slot, client) for slot, client in present if client.remaining]
        for slot, client in training:
            coming = client.coming(count)
            rows[:, slot] += coming.index
            coefficient[:, slot] = coming.coefficient
            early = max(0, client.train.first_epoch - client.position)
            noted[:early, slot] = coming.coefficient[:early] > 0
        tape = Tape(self._on_device(rows), self._on_device(coefficient))
        losses, shown = self.steps.run(tape, watch, note=bool(noted.any()))
        if losses is not None:
            first = torch.where(self._on_device(noted), losses, 0.0)
            whose = [(slot, client.job) for slot, client in training if noted[0, slot, 0]]
            self._losses.append((whose, loss_sums(first.transpose(0, 1).flatten(1))))
        for slot, client in training:
            if shown and client.train.watch:
                own = slice(slot * shape[2], (slot + 1) * shape[2])
                client.watch(HeadGradients.gather([seen.take(own) for seen in shown]), count)

    def _note_losses(self) -> None:
        """Bring sums from the device; not before the end, since the next tape would wait for it."""
        for whose, sums in self._losses:
            here = sums.cpu()
            for slot, job in whose:
                job.note_losses(here[slot])
        self._losses = []

    def _on_device(self, values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(values).to(self.pool.device)
