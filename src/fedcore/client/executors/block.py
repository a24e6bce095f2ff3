"""A block of clients trained side by side, each on its own tape, until the last has finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.client.executors.pool import Pool
from fedcore.client.executors.steps import Steps, Tape
from fedcore.client.executors.walk import Setting, Walk
from fedcore.coreset.proxies import HeadGradients
from fedcore.types import Assignment, ClientData, ClientId, LocalUpdate, Params

LONGEST_RUN = 256  # steps between two looks at the clients: bounds the tapes on the device
LONGEST_WATCH = 64  # the same where every step leaves gradients behind
CROWD = 0.75  # compact when fewer than this share of the slots are still at work


@dataclass(slots=True)
class Effort:
    """Rows of all steps that were taken, and those of them that held a sample."""

    samples: int = 0  # rows that held a sample
    rows: int = 0  # all rows of all stepped slots

    @property
    def padding_share(self) -> float:
        """Share of all stepped rows that held no sample: idle clients and short batches."""
        return 1 - self.samples / self.rows if self.rows else 0.0

    def add(self, other: Effort) -> None:
        """Count another block's work in."""
        self.samples += other.samples
        self.rows += other.rows


class Block:
    """Clients in slots; finished ones leave, and the others move up when it pays."""

    def __init__(self, steps: Steps, pool: Pool, setting: Setting) -> None:
        """Bind what takes the steps, what holds the samples, and what phases ask for."""
        self._steps = steps
        self._pool = pool
        self._setting = setting
        self._slots: list[Walk | None] = []
        self.effort = Effort()

    def train(
        self, params: Params, work: Sequence[tuple[Assignment, ClientData]]
    ) -> dict[ClientId, LocalUpdate]:
        """Train every assignment from ``params``."""
        placed = self._pool.fill([data for _, data in work], [a.client_id for a, _ in work])
        walks = [
            Walk(assignment, data, first)
            for (assignment, _), (first, data) in zip(work, placed, strict=True)
        ]
        for walk in walks:
            walk.look_ahead(self._setting)
        self._slots = list(walks)
        self._steps.start(params, len(work))
        answers: dict[ClientId, LocalUpdate] = {}
        while True:
            self._next_phases(answers)
            present = [walk for walk in self._slots if walk is not None]
            if not present:
                return answers
            self._compact(len(present))
            self._run(present)

    def _next_phases(self, answers: dict[ClientId, LocalUpdate]) -> None:
        """Give a tape to every client that has come to the end of its own, or let it go."""
        for slot, walk in enumerate(self._slots):
            if walk is None:
                continue
            while walk.remaining == 0 and walk.rest == 0:
                own = self._steps.params_of(slot)
                if not walk.go_on(own, self._setting):
                    copied = {name: value.clone() for name, value in own.items()}
                    answers[walk.assignment.client_id] = walk.update(copied)
                    self._slots[slot] = None
                    break

    def _compact(self, active: int) -> None:
        if active <= CROWD * len(self._slots):
            kept = [slot for slot, walk in enumerate(self._slots) if walk is not None]
            self._steps.keep(kept)
            self._slots = [self._slots[slot] for slot in kept]

    def _run(self, present: Sequence[Walk]) -> None:
        """Step until the first client comes to the end of its tape or of its rest."""
        active = [walk for walk in present if walk.remaining]
        ends = [walk.remaining or walk.rest for walk in present]
        if active:
            watching = any(walk.watching for walk in active)
            count = min(LONGEST_WATCH if watching else LONGEST_RUN, *ends)
            tape = self._tape(count)
            shown = self._steps.run(tape, self._setting.task.head_width if watching else 0)
        else:  # nobody has anything to do: the first to end its rest need not wait for steps
            count, shown = min(ends), []
        for slot, walk in enumerate(self._slots):
            if walk is None:
                continue
            if walk.remaining:
                walk.move(count, _of_slot(shown, slot, len(self._slots)) if shown else None)
            else:
                walk.rest -= count

    def _tape(self, count: int) -> Tape:
        batch = self._setting.settings.batch_size
        rows = np.zeros((count, len(self._slots), batch), np.int64)
        coefficient = np.zeros((count, len(self._slots), batch), np.float32)
        pulls = np.zeros(len(self._slots), np.float32)
        for slot, walk in enumerate(self._slots):
            if walk is None:
                continue
            # Who rests sees its own sample: another's might overflow, and 0 · NaN is NaN.
            rows[:, slot] = walk.first_row
            if walk.remaining:
                index, own = walk.next_steps(count)
                rows[:, slot], coefficient[:, slot] = index + walk.first_row, own
                pulls[slot] = self._setting.settings.learning_rate * walk.assignment.plan.prox_mu
        self.effort.add(Effort(int((coefficient > 0).sum()), coefficient.size))
        pull = self._on_device(pulls) if pulls.any() else None
        return Tape(self._on_device(rows), self._on_device(coefficient), pull)

    def _on_device(self, values: NDArray[np.int64] | NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(values).to(self._pool.device)


def _of_slot(shown: Sequence[HeadGradients], slot: int, slots: int) -> HeadGradients:
    """What one client's rows showed over some steps: [steps · batch, ...]."""
    per_client = len(shown[0].losses) // slots
    rows = slice(slot * per_client, (slot + 1) * per_client)
    return HeadGradients(
        torch.cat([seen.residuals[rows] for seen in shown]),
        torch.cat([seen.inputs[rows] for seen in shown]),
        torch.cat([seen.losses[rows] for seen in shown]),
    )
