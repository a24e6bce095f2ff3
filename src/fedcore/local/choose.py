"""Which executor trains the clients."""

from __future__ import annotations

from collections.abc import Mapping

from fedcore.errors import BadOption
from fedcore.local import linear
from fedcore.local.sequential import SequentialExecutor
from fedcore.local.vectorised import VectorisedExecutor
from fedcore.task import Task
from fedcore.types import ClientData, ClientId, Executor, TrainingSettings


def choose_executor(
    name: str,
    task: Task,
    clients: Mapping[ClientId, ClientData],
    settings: TrainingSettings,
    *,
    threads: int,
) -> Executor:
    """The executor called ``name``; ``auto`` takes the fastest that fits the model."""
    if name == "sequential" or (name == "auto" and not linear.fits(task)):
        return SequentialExecutor(task, clients, settings)
    if name == "vectorised":
        return VectorisedExecutor(task, clients, settings, threads=threads)
    if not linear.fits(task):
        raise BadOption(
            "executor 'compiled' trains models of one linear layer and needs numba; use 'auto'"
        )
    return linear.LinearExecutor(task, clients, settings, threads=threads)
