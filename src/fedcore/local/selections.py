"""Coresets chosen on threads beside the training, and how long that took.

What is chosen depends on the assignment alone: neither threads nor their timing can change it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

from fedcore.local.coresets import Coresets, Watched
from fedcore.local.schedule import Samples
from fedcore.types import Assignment, SelectionTime

Pending = Callable[[], Samples]  # waits for a choice and hands it over


class Selections:
    """Begins choices and keeps the time of them."""

    def __init__(self, coresets: Coresets, threads: int = 0) -> None:
        """Bind what chooses.

        Args:
            coresets: makes the choices.
            threads: that make them, one choice each; 0 makes a choice where it is taken.
        """
        self._coresets = coresets
        self._lock = threading.Lock()
        self._workers: ThreadPoolExecutor | None = None
        if threads:
            # One core each: they stand beside a training that has the others.
            start = torch.set_num_threads
            self._workers = ThreadPoolExecutor(threads, initializer=start, initargs=(1,))
        self.time = SelectionTime()
        self._waiting = 0  # trainings that stand still, and since when one does
        self._since = 0.0

    def begin(self, assignment: Assignment, phase: int, watched: Watched | None = None) -> Pending:
        """Begin to choose what phase number ``phase`` trains on; call the answer to have it.

        Args:
            assignment: whose plan says how large a coreset, if any.
            phase: its number within the plan.
            watched: gradients from the phase before, if they were collected.
        """
        choice = self._coresets.prepare(assignment, phase, watched)
        if assignment.plan.phases[phase].coreset is None:
            return choice.make
        if self._workers is None or not choice.anywhere:
            return lambda: self._waited(lambda: self._worked(choice.make))
        # A thread that never asked for its number of threads gets the number set last, by whom-
        # ever; asking now keeps what the workers set away from the training.
        torch.get_num_threads()
        running = self._workers.submit(self._worked, choice.make)
        return lambda: self._waited(running.result)

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
