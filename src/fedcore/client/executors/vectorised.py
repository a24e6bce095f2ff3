"""The vectorised executor: a cohort trained side by side, in blocks that memory can hold.

Equal to ``SequentialExecutor`` up to the rounding of float32 sums: the same samples in the same
order, from the same random streams. Clients are sorted by their number of steps before they are
cut into blocks, so that those of a block finish at about the same time. On a CPU a block of a
large network is one client (``by_name.block_size``).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from fedcore.client.coresets import Coresets
from fedcore.client.executors.block import Block, Effort
from fedcore.client.executors.pool import Pool
from fedcore.client.executors.stacked_model import form_of
from fedcore.client.executors.steps import Steps
from fedcore.client.job import steps_of
from fedcore.client.selections import Selections
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

log = logging.getLogger(__name__)

_Trained = tuple[list[LocalUpdate], Effort]


class VectorisedExecutor:
    """Trains clients in blocks; on a CPU blocks run side by side, one core each."""

    def __init__(
        self,
        task: Task,
        clients: Mapping[ClientId, ClientData],
        settings: TrainingSettings,
        *,
        device: torch.device | str = "cpu",
        block: int = 100,
        threads: int = 1,
    ) -> None:
        """Bind the model's recipe, the data and how steps are taken.

        Args:
            task: the model.
            clients: their data; only that of a block in training is copied.
            settings: how steps are taken.
            device: where to train.
            block: clients that are trained side by side at most.
            threads: blocks that run side by side on a CPU, and coresets that are chosen beside
                the training; 0 is one per core.
        """
        self._task = task
        self._clients = clients
        self._settings = settings
        self._device = torch.device(device)
        self._block = block
        self._threads = (threads or os.cpu_count() or 1) if self._device.type == "cpu" else 1
        self._own = threading.local()
        self._workers: ThreadPoolExecutor | None = None
        self.effort = Effort()
        # A block of one client has nobody to train while it chooses.
        alone = block == 1 or (self._device.type == "cpu" and self._threads == 1)
        choosing = 0 if alone else threads or os.cpu_count() or 1
        self._selections = Selections(Coresets(clients), choosing)

    @property
    def selection(self) -> SelectionTime:
        """What choosing coresets took so far."""
        return self._selections.time

    def expect(self, assignments: Sequence[Assignment]) -> None:
        """Begin to choose the coresets that these will need, where inputs alone decide."""
        self._selections.expect(assignments)

    def close(self) -> None:
        """Drop the blocks that no thread has begun, and the coresets likewise."""
        self._selections.close()
        if self._workers is not None:
            self._workers.shutdown(wait=False, cancel_futures=True)

    @property
    def padding_share(self) -> float:
        """Share of all rows computed so far that held no sample."""
        return self.effort.padding_share

    def run(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        """Train every assignment from ``params``; blocks change the time, never the result."""
        order = sorted(range(len(assignments)), key=lambda place: -self._steps(assignments[place]))
        # The longest first: no thread starts it when the others are done.
        ordered = [assignments[place] for place in order]
        blocks = [ordered[i : i + self._block] for i in range(0, len(ordered), self._block)]
        if self._threads == 1 or len(blocks) == 1:
            trained = [self._train(params, block) for block in blocks]
        else:
            trained = self._on_threads(params, blocks)
        effort = Effort()
        for _, spent in trained:
            effort.add(spent)
        self.effort.add(effort)
        log.debug("%d blocks, padding share %.3f", len(blocks), effort.padding_share)
        answers = dict(zip(order, (one for block, _ in trained for one in block), strict=True))
        return [answers[place] for place in range(len(assignments))]

    def _steps(self, assignment: Assignment) -> int:
        size = len(self._clients[assignment.client_id])
        return steps_of(assignment.plan, size, self._settings.batch_size)

    def _on_threads(self, params: Params, blocks: Sequence[Sequence[Assignment]]) -> list[_Trained]:
        """Blocks on threads of one core each: two cores on one small step gain far less."""

        def train(block: Sequence[Assignment]) -> _Trained:
            torch.set_num_threads(1)
            return self._train(params, block)

        before = torch.get_num_threads()
        if self._workers is None:
            self._workers = ThreadPoolExecutor(self._threads)
        try:
            return list(self._workers.map(train, blocks))
        finally:
            torch.set_num_threads(before)

    def _train(self, params: Params, assignments: Sequence[Assignment]) -> _Trained:
        if not hasattr(self._own, "tools"):
            # A thread's own: a module that is called with parameters swaps its own for them.
            task, pool = self._task.on(self._device), Pool(self._device)
            steps = Steps(
                form_of(task),
                pool,
                self._settings.learning_rate,
                record=self._device.type == "cuda",
            )
            self._own.tools = task, self._settings, self._selections, pool, steps
        block = Block(*self._own.tools)
        data = [self._clients[assignment.client_id] for assignment in assignments]
        return block.train(params, assignments, data), block.effort
