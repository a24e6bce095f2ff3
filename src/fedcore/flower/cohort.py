"""Who takes part in a round: a sampler of the house over nodes that are there and idle."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from logging import INFO

from flwr.supercore import log

from fedcore.errors import FedCoreError
from fedcore.flower.clock import GridClock
from fedcore.flower.fleet import Fleet
from fedcore.flower.post import Post
from fedcore.server.method import Action, Cohort, Draw, Merging, Sampler, Situation
from fedcore.server.state import ServerState
from fedcore.sources.clients import ClientSizes
from fedcore.types import LocalUpdate, Params

LOOK = 1.0  # seconds between two looks at who is online


class NoNodes(FedCoreError):
    """Too few nodes, however long one waits."""


@dataclass(slots=True)
class Cohorts:
    """Draws for a sampler that knows nothing of addresses; and when a round has its answers."""

    sampler: Sampler
    clock: GridClock
    fleet: Fleet
    post: Post
    share: float  # of those online
    least: int  # nodes of a round
    available: int  # nodes that must be online
    over_selection: float  # nodes asked for every answer that is waited for
    patience: float  # seconds that nodes are waited for
    wanted: int = 0  # answers that end the round
    known: int = 0  # nodes that the sampler's memory is about

    def as_sampler(self) -> Sampler:
        """This as a sampler of the house."""
        return Sampler(self.draw, self.observe if self.sampler.observe else None)

    def observe(self, memory: Params, update: LocalUpdate, sizes: ClientSizes) -> Params:
        """Pass an answer on; when the fleet has grown, the memory begins anew."""
        memory, self.known = (memory if self.known == len(self.fleet) else {}), len(self.fleet)
        assert self.sampler.observe is not None
        return self.sampler.observe(memory, update, self.fleet.sizes())

    def draw(self, asked: Draw) -> Cohort:
        """Draw among those who may; where nobody is out, wait for them."""
        free = self._free(asked.version)
        until = self.post.monotonic() + self.patience
        while not asked.busy and (len(self.fleet.online) < self.available or not free):
            self._check(asked.version, until)
            self.post.sleep(LOOK)
            self.clock.collect()
            free = self._free(asked.version)
        self.wanted = max(int(self.share * len(self.fleet.online)), self.least)
        count = min(asked.count, math.ceil(self.over_selection * self.wanted))
        memory = asked.memory if self.known == len(self.fleet) else {}
        rest = frozenset(self.fleet) - free
        sizes = self.fleet.sizes()
        cohort = self.sampler.draw(
            replace(asked, count=count, sizes=sizes, busy=rest, memory=memory)
        )
        way = [self.fleet[client].transfer_seconds(self.fleet.model_bytes) for client in cohort]
        if cohort and min(way) >= self.clock.limit:
            raise FedCoreError(
                f"everybody would sit out: the deadline is {self.clock.limit:.1f} s, but messages "
                f"alone take {min(way):.1f} to {max(way):.1f} s; set it to {2 * max(way):.0f} s"
            )
        return cohort

    def decide(self, seen: Situation) -> Action:
        """The synchronous round on the wall: everybody, or enough of them, or time is up."""
        if not seen.in_flight:
            return Action.MERGE
        done = seen.alarm or seen.answers >= self.wanted
        return Action.MERGE_AND_CANCEL if done else Action.WAIT

    def _free(self, version: int) -> set[int]:
        self.fleet.meet(self.post.nodes())
        return set(self.fleet.online) - self.post.busy() - set(self.fleet.left_out(version))

    def _check(self, version: int, until: float) -> None:
        online, out = len(self.fleet.online), len(self.fleet.left_out(version))
        if online >= self.available and online == out:
            raise NoNodes(f"all {online} nodes are left out after bad answers; see the log")
        if self.post.monotonic() >= until:
            raise NoNodes(
                f"{online} of at least {self.available} nodes are online and "
                f"{len(self.post.busy())} owe an answer after {self.patience:g} s; start more "
                "SuperNodes, and compare clocks: a SuperNode whose clock is 5 s ahead of the "
                "SuperLink's is refused and exits as 'terminated gracefully'"
            )
        log(INFO, "waiting for nodes: %d online, at least %d needed", online, self.available)


@dataclass(slots=True)
class Quorum:
    """A merge that leaves the model as it was where too few have answered."""

    inner: Merging
    state: ServerState
    least: int
    answers: int = 0

    def add(self, update: LocalUpdate, base: Params) -> None:
        """Take an answer in."""
        self.answers += 1
        self.inner.add(update, base)

    def finish(self) -> ServerState:
        """The next state, or the same."""
        return self.inner.finish() if self.answers >= self.least else self.state


def with_quorum(
    merge: Callable[[ServerState], Merging], least: int
) -> Callable[[ServerState], Merging]:
    """``merge``, but of at least so many answers."""
    return lambda state: Quorum(merge(state), state, least)
