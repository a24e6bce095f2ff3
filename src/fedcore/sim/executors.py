"""Executors around executors: what only a simulation asks of them."""

from __future__ import annotations

from collections.abc import Sequence

from fedcore.sources.clients import LazyClients
from fedcore.types import Assignment, Executor, LocalUpdate, Params, SelectionTime


class Around:
    """An executor that hands everything on."""

    def __init__(self, executor: Executor) -> None:
        """Bind who trains."""
        self._executor = executor

    @property
    def selection(self) -> SelectionTime:
        """What choosing coresets took so far."""
        return self._executor.selection

    def expect(self, assignments: Sequence[Assignment]) -> None:
        """Prepare for what will be asked."""
        self._executor.expect(assignments)

    def run(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        """Train every assignment from ``params``."""
        return self._executor.run(params, assignments)

    def close(self) -> None:
        """Drop what has not begun."""
        self._executor.close()


class Chained(Around):
    """Repeats a defect of the authors' code, to show what it does (docs/deviations.md).

    In its first round the global model is a live reference to the model being trained, so each
    client starts where the one before it ended. No preset sets it.
    """

    def run(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        """Train in a row from the first version, side by side from any other."""
        if assignments[0].base_version > 0:
            return super().run(params, assignments)
        updates: list[LocalUpdate] = []
        for assignment in assignments:
            start = updates[-1].params if updates else params
            updates += self._executor.run(start, [assignment])
        return updates


class Holding(Around):
    """Keeps the samples of those who train in memory, and lets go of all others."""

    def __init__(self, executor: Executor, clients: LazyClients) -> None:
        """Bind who trains, and whose samples are loaded on demand."""
        super().__init__(executor)
        self._clients = clients

    def run(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        """Train every assignment from ``params``."""
        self._clients.hold(assignment.client_id for assignment in assignments)
        return super().run(params, assignments)
