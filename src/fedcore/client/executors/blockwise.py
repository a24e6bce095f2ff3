"""What all executors share: assignments in blocks, on threads, and coresets chosen beside them."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from fedcore.client.coresets import Clients, Coresets
from fedcore.sources.clients import LazyClients
from fedcore.task import Task
from fedcore.types import Assignment, LocalUpdate, Params, TrainingSettings

Made = TypeVar("Made")


class BlockwiseExecutor:
    """Trains blocks of assignments; a kind of executor says how a block is trained."""

    def __init__(
        self,
        task: Task,
        clients: Clients,
        settings: TrainingSettings,
        *,
        device: torch.device | str = "cpu",
        block: int = 1,
        threads: int = 1,
    ) -> None:
        """Bind all; ``threads`` train blocks on a CPU and choose coresets, 0: one per core."""
        self._task, self._clients, self._settings = task, clients, settings
        self._device, threads = torch.device(device), threads or os.cpu_count() or 1
        on_cpu = self._device.type == "cpu"
        self._block, self._threads = block, threads if on_cpu else 1
        self._coresets = Coresets(clients, 0 if on_cpu and threads == 1 else threads)
        self.memory, self.selection = self._coresets.losses, self._coresets.time
        self.expect = self._coresets.expect  # begins those that inputs alone decide
        self._workers = ThreadPoolExecutor(self._threads)  # which begin when they are needed
        self._own = threading.local()

    def close(self) -> None:
        """Drop the blocks that no thread has begun, and the coresets likewise."""
        self._coresets.close()
        self._workers.shutdown(wait=False, cancel_futures=True)

    def run(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        """Train every assignment from ``params``; blocks and threads never change a result."""
        if isinstance(self._clients, LazyClients):
            self._clients.hold(one.client_id for one in assignments)
        self.expect(assignments)
        order = sorted(range(len(assignments)), key=lambda place: self._rank(assignments[place]))
        ordered = [assignments[place] for place in order]
        blocks = [ordered[i : i + self._block] for i in range(0, len(ordered), self._block)]
        if self._threads == 1 or len(blocks) == 1:
            trained = [self._train(params, block) for block in blocks]
        else:
            trained = self._on_threads(params, blocks)
        answers = dict(zip(order, (one for block in trained for one in block), strict=True))
        return [answers[place] for place in range(len(assignments))]

    def _rank(self, assignment: Assignment) -> tuple[int, ...]:
        """The longest first: no thread starts it when the others are done."""
        return (-assignment.plan.trained(len(self._clients[assignment.client_id])),)

    def _train(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        raise NotImplementedError

    def _on_threads(
        self, params: Params, blocks: Sequence[Sequence[Assignment]]
    ) -> list[list[LocalUpdate]]:
        """Blocks on threads of one core each: two cores on one small step gain far less."""

        def train(block: Sequence[Assignment]) -> list[LocalUpdate]:
            torch.set_num_threads(1)
            return self._train(params, block)

        before = torch.get_num_threads()
        try:
            return list(self._workers.map(train, blocks))
        finally:
            torch.set_num_threads(before)

    def _of_this_thread(self, make: Callable[[], Made]) -> Made:
        """What a thread needs for itself: a module that is called with parameters swaps its own."""
        if not hasattr(self._own, "made"):
            self._own.made = make()
        made: Made = self._own.made
        return made
