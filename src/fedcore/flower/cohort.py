"""Who takes part in a round: a sampler of the house over nodes that are there and idle."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from logging import INFO

from flwr.serverapp.strategy import FedAvg
from flwr.supercore import log

from fedcore.errors import FedCoreError
from fedcore.flower.clock import GridClock
from fedcore.flower.options import Options
from fedcore.flower.post import Post
from fedcore.server.method import Action, Cohort, Draw, Merge, Merging, Sampler, Situation
from fedcore.server.state import ServerState
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientId, LocalUpdate, Params

LOOK = 1.0  # seconds between two looks at who is online


class NoNodes(FedCoreError):
    """Too few nodes, however long one waits."""


class Cohorts:
    """Draws for a sampler that knows nothing of addresses; and says when a round is over."""

    def __init__(self, clock: GridClock, post: Post, options: Options, numbers: FedAvg) -> None:
        """Bind who is known, and the ``numbers`` of nodes, which are FedAvg's arguments."""
        self._sampler = options.build_sampler(clock.fleet.model_bytes)
        self._clock, self._fleet, self._post = clock, clock.fleet, post
        self._options, self._numbers = options, numbers
        self._wanted = 0  # answers that end the round
        self._known = len(self._fleet)  # nodes that the sampler's memory is about

    def as_sampler(self) -> Sampler:
        """This as a sampler of the house."""
        return Sampler(self.draw, self.observe if self._sampler.observe else None)

    def observe(self, memory: Params, update: LocalUpdate, sizes: ClientSizes) -> Params:
        """Pass an answer on; when the fleet has grown, the memory begins anew."""
        memory, self._known = self._memory(memory), len(self._fleet)
        look_back = self._sampler.observe
        return look_back(memory, update, self._fleet.sizes()) if look_back else memory

    def draw(self, asked: Draw) -> Cohort:
        """Draw among those who may; where nobody is out, wait for them."""
        free = self._free(asked.version)
        until, least = self._post.monotonic() + self._options.wait_for_nodes, self._numbers
        while not asked.busy and (len(self._fleet.online) < least.min_available_nodes or not free):
            self._check(asked.version, until)
            self._post.sleep(LOOK)
            self._clock.collect()
            free = self._free(asked.version)
        share = int(least.fraction_train * len(self._fleet.online))
        self._wanted = max(share, least.min_train_nodes, 1)
        most = math.ceil(self._options.over_selection * self._wanted) - len(asked.busy)
        count = max(0, min(asked.count, most))
        rest = frozenset(self._fleet) - free
        sizes, memory = self._fleet.sizes(), self._memory(asked.memory)
        return self._sampler.draw(
            replace(asked, count=count, sizes=sizes, busy=rest, memory=memory)
        )

    def decide(self, seen: Situation) -> Action:
        """The synchronous round on the wall: everybody, or enough of them, or time is up."""
        if not seen.in_flight:
            return Action.MERGE
        done = seen.alarm or seen.answers >= self._wanted
        return Action.MERGE_AND_CANCEL if done else Action.WAIT

    def with_quorum(self, merge: Merge) -> Merge:
        """``merge``, which leaves the model as it was where too few have answered."""
        return lambda state: _Quorum(merge(state), state, self._options.quorum)

    def _memory(self, memory: Params) -> Params:
        return memory if self._known == len(self._fleet) else {}

    def _free(self, version: int) -> set[ClientId]:
        self._fleet.meet(self._post.nodes())
        return set(self._fleet.online) - self._post.busy() - self._fleet.left_out(version)

    def _check(self, version: int, until: float) -> None:
        online, least = len(self._fleet.online), self._numbers.min_available_nodes
        if online >= least and online == len(self._fleet.left_out(version)):
            raise NoNodes(f"all {online} nodes are left out for bad answers; the log has reasons")
        if self._post.monotonic() >= until:
            raise NoNodes(
                f"{online} nodes are online and {len(self._post.busy())} owe an answer, but at "
                f"least {least} are needed, for {self._options.wait_for_nodes:g} s now; start more "
                "SuperNodes, and compare clocks: one that is 5 s ahead of the SuperLink's has its "
                "node refused, which then says 'terminated gracefully'"
            )
        log(INFO, "waiting for nodes: %d online, at least %d needed", online, least)


@dataclass(slots=True)
class _Quorum:
    inner: Merging
    state: ServerState
    least: int
    answers: int = 0

    def add(self, update: LocalUpdate, base: Params) -> None:
        self.answers += 1
        self.inner.add(update, base)

    def finish(self) -> ServerState:
        return self.inner.finish() if self.answers >= self.least else self.state
