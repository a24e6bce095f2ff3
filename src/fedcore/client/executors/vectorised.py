"""The vectorised executor: a cohort trained side by side, in blocks that memory can hold.

Equal to ``SequentialExecutor`` up to the rounding of float32 sums: the same samples in the same
order, from the same random streams. Clients are sorted by the samples they train on before they
are cut into blocks, so that those of a block finish at about the same time. On a CPU a block of a
large network is one client (``by_name.block_size``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import torch

from fedcore.client.executors.block import Block
from fedcore.client.executors.blockwise import BlockwiseExecutor
from fedcore.client.executors.pool import Pool
from fedcore.client.executors.stacked_model import form_of
from fedcore.client.executors.steps import Steps
from fedcore.task import Task
from fedcore.types import Assignment, ClientData, ClientId, LocalUpdate, Params, TrainingSettings


class VectorisedExecutor(BlockwiseExecutor):
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
        """Bind the model's recipe, the data and how steps are taken, in blocks of how many.

        ``threads`` train blocks side by side on a CPU, and choose coresets beside the training; 0
        is one per core.
        """
        self._task = task
        self._device = torch.device(device)
        threads = threads or os.cpu_count() or 1
        blocks = threads if self._device.type == "cpu" else 1
        # A block of one client has nobody to train while it chooses.
        alone = block == 1 or (self._device.type == "cpu" and threads == 1)
        choosing = 0 if alone else threads
        super().__init__(clients, settings, block=block, threads=blocks, choosing=choosing)

    def _rank(self, assignment: Assignment) -> tuple[int, ...]:
        """The longest first: no thread starts it when the others are done."""
        return (-assignment.plan.trained(len(self._clients[assignment.client_id])),)

    def _train(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        data = [self._clients[assignment.client_id] for assignment in assignments]
        return self._of_this_thread(self._new_block).train(params, assignments, data)

    def _new_block(self) -> Block:
        task, pool = self._task.on(self._device), Pool(self._device)
        record = self._device.type == "cuda"
        steps = Steps(form_of(task), pool, self._settings.learning_rate, record=record)
        return Block(task, self._settings, self._coresets, pool, steps)
