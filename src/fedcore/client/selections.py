"""Coresets chosen on threads beside the training, and how long that took.

What is chosen depends on the assignment alone: neither threads nor their timing can change it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from fedcore.client.coresets import Coresets, Watched
from fedcore.client.schedule import Samples
from fedcore.types import Assignment, ClientId, CoresetSpec, SelectionTime

Pending = Callable[[], Samples]  # waits for a choice and hands it over
Key = tuple[ClientId, CoresetSpec | None]


class Selections:
    """Begins choices and keeps the time of them."""

    def __init__(self, coresets: Coresets, threads: int = 0) -> None:
        """Bind what chooses, and on how many threads; 0 makes a choice where it is taken."""
        self._coresets = coresets
        self._lock = threading.Lock()
        self._workers: ThreadPoolExecutor | None = None
        if threads:
            # One core each: they stand beside a training that has the others.
            start = torch.set_num_threads
            self._workers = ThreadPoolExecutor(threads, initializer=start, initargs=(1,))
        self._expected: dict[Key, Future[Samples]] = {}  # choices of inputs that are under way
        self.time = SelectionTime()
        self._waiting = 0  # trainings that stand still, and since when one does
        self._since = 0.0

    def expect(self, assignments: Iterable[Assignment]) -> None:
        """Begin what these will ask for and inputs alone decide, the largest first.

        Threads make choices in the order in which they were begun, so those of a later round come
        when there is nothing more urgent. Without threads nothing is begun.
        """
        if self._workers is None:
            return
        pairs = [(one, phase) for one in assignments for phase in range(len(one.plan.phases))]
        for assignment, phase in sorted(pairs, key=lambda pair: -self._coresets.missing(*pair)):
            if self._coresets.missing(assignment, phase):
                self._ahead(self._workers, assignment, phase)

    def missing(self, assignment: Assignment) -> int:
        """Samples among which this has to wait for a choice, of those made of inputs."""
        phases = range(len(assignment.plan.phases))
        return sum(self._coresets.missing(assignment, phase) for phase in phases)

    def begin(self, assignment: Assignment, phase: int, watched: Watched | None = None) -> Pending:
        """Begin to choose what phase number ``phase`` trains on; call the answer to have it."""
        choose = self._coresets.prepare(assignment, phase, watched)
        if assignment.plan.phases[phase].coreset is None:
            return choose
        if self._workers is None or self._coresets.is_kept(assignment, phase):
            return lambda: self._waited(lambda: self._worked(choose))
        if self._coresets.missing(assignment, phase):
            running = self._ahead(self._workers, assignment, phase)
        else:
            running = self._submit(self._workers, choose)
        return lambda: self._waited(running.result)

    def close(self) -> None:
        """Drop the choices that no thread has begun; those under way end by themselves."""
        if self._workers is not None:
            self._workers.shutdown(wait=False, cancel_futures=True)

    def _ahead(
        self, workers: ThreadPoolExecutor, assignment: Assignment, phase: int
    ) -> Future[Samples]:
        """Begin a choice that is kept, or find it under way."""
        key = (assignment.client_id, assignment.plan.phases[phase].coreset)
        running = self._expected.get(key)
        if running is None:
            running = self._submit(workers, self._coresets.prepare(assignment, phase))
            self._expected[key] = running
            running.add_done_callback(lambda _: self._expected.pop(key, None))
        return running

    def _submit(
        self, workers: ThreadPoolExecutor, choose: Callable[[], Samples]
    ) -> Future[Samples]:
        # A thread that never asked for its number of threads gets the number set last, by whom-
        # ever; asking now keeps what the workers set away from the training.
        torch.get_num_threads()
        return workers.submit(self._worked, choose)

    def _worked(self, choose: Callable[[], Samples]) -> Samples:
        began = time.thread_time()
        try:
            return choose()
        finally:
            with self._lock:
                self.time.work += time.thread_time() - began

    def _waited(self, wait: Callable[[], Samples]) -> Samples:
        with self._lock:
            if self._waiting == 0:
                self._since = time.perf_counter()
            self._waiting += 1
        try:
            return wait()
        finally:
            with self._lock:
                self._waiting -= 1
                if self._waiting == 0:
                    self.time.waited += time.perf_counter() - self._since
