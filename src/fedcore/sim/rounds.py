"""The rounds of one run: what the server does, and how good its models are."""

from __future__ import annotations

import copy
import time
from collections.abc import Generator
from contextlib import closing

import torch

from fedcore.records import RoundRecord, Snapshot
from fedcore.server.loop import Merged
from fedcore.server.state import ServerState, from_snapshot
from fedcore.sim.world import World
from fedcore.types import SelectionTime


def simulate_rounds(
    world: World, start: Snapshot | None = None
) -> Generator[tuple[RoundRecord, ServerState], None, None]:
    """Train round by round; yields a record and the server's state after each.

    Closed early, it drops the work that was begun for later rounds.

    Args:
        world: server, clients and what is measured.
        start: what an earlier process saved, to go on from there.
    """
    if start is None:
        state = ServerState({name: v.to(world.device) for name, v in world.initial.items()})
    else:
        state = from_snapshot(start, world.device, world.server.assign)
    with closing(world.executor):  # also when the caller wants no more rounds, or cannot take them
        rounds = world.server.run(state)
        while True:
            began, before = time.perf_counter(), copy.copy(world.executor.selection)
            merged = next(rounds, None)
            if merged is None:
                return
            yield _record(world, merged, began, before), merged.state


def _record(world: World, merged: Merged, began: float, before: SelectionTime) -> RoundRecord:
    if world.device.type == "cuda":  # else what is left of the training would count as evaluation
        torch.cuda.synchronize(world.device)
    executed = time.perf_counter()
    trained = world.measure.train(merged.state.params)
    tested = world.measure.test(merged.state.params)
    ended, chosen = time.perf_counter(), world.executor.selection
    return RoundRecord(
        number=merged.state.version,
        seconds=merged.seconds,
        deadline=world.deadline,
        clients=merged.clients,
        rejected=merged.rejected,
        train_loss=trained.loss,
        train_accuracy=trained.accuracy,
        test_loss=tested.loss if tested else None,
        test_accuracy=tested.accuracy if tested else None,
        wall_seconds=ended - began,
        training_seconds=merged.training_seconds,
        selection_seconds=chosen.work - before.work,
        waited_seconds=chosen.waited - before.waited,
        evaluation_seconds=ended - executed,
    )
