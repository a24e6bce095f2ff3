"""What the server learns of its nodes, their speed and the way to them."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from logging import WARNING
from statistics import fmean, median, pstdev
from typing import Any

import numpy as np
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore import log

from fedcore.flower.wire import Report
from fedcore.server.controller import SHARE, Seen
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientId, ClientProfile

FADING = 0.8  # of what is known of a node that sits out, every round
UNMEASURED = 1e9  # samples a second: who is not known yet is told to do everything
KEPT, RECENT = 16, 4  # trips that are remembered, and those whose mean is the way
FIRST_SPREAD = 0.5  # seconds, of ways back while there is only one
NORMS, FEWEST_NORMS, LONGEST = 64, 3, 10.0  # updates at most so many times the median of them
LIES, LEFT_OUT = 3, 5  # bad answers in a row, and rounds that a node is left out after them


@dataclass(slots=True)
class Node:
    """One node, by what it answered."""

    samples: int = 0  # 0: it has not answered yet
    speed: float = 0.0  # work / training seconds, averaged; 0: not known
    ways: list[float] = field(default_factory=list)  # seconds of trips that were no training
    backs: list[float] = field(default_factory=list)  # trip - age - handler, clock's error in it
    lies: int = 0  # bad answers in a row
    refused: int = 0  # in all
    left_out: int = 0  # rounds, the last time
    left_out_until: int = 0  # the version from which it may be drawn again

    @property
    def way(self) -> float:
        """Seconds that there and back take."""
        return fmean(self.ways[-RECENT:]) if self.ways else 0.0


class Fleet(Mapping[ClientId, ClientProfile]):
    """Everybody ever met, as profiles by number; numbers stay, also from process to process."""

    def __init__(self, model_bytes: int) -> None:
        """Nobody yet; the way takes as long as a link that carries ``model_bytes`` in that time."""
        self.model_bytes = model_bytes
        self.names: list[str] = []
        self.nodes: list[Node] = []
        self.online: dict[ClientId, int] = {}  # the address of each, for this run
        self.norms: list[float] = []  # of updates that were accepted, over the root of their work
        self.rounds: list[list[float]] = []  # deadline, Σ of losses, and their number

    def meet(self, found: Iterable[NodeInfo]) -> None:
        """Who is online now; a node is its key, or where it has none, its address."""
        keys = {node.node_id: bytes(node.public_key) for node in found}
        named = {hashlib.sha256(k).hexdigest() if k else f"node {n}": n for n, k in keys.items()}
        new = sorted(named.keys() - set(self.names))
        self.names += new
        self.nodes += [Node() for _ in new]
        self.online = {n: named[name] for n, name in enumerate(self.names) if name in named}

    def __getitem__(self, client: ClientId) -> ClientProfile:
        node = self.nodes[client]
        # A first trip has in it what happens only once: imports, downloads, a cold cache.
        way = node.way / (2 if len(node.ways) == 1 else 1)
        link = self.model_bytes / way if way > 0 else float("inf")
        return ClientProfile(max(1, node.samples), node.speed or UNMEASURED, upload=link)

    def __iter__(self) -> Iterator[ClientId]:
        return iter(range(len(self.nodes)))

    def __len__(self) -> int:
        return len(self.nodes)

    def sizes(self) -> ClientSizes:
        """Samples of each; who was not met yet counts as the mean of the others."""
        mean = round(fmean([node.samples for node in self.nodes if node.samples] or [1]))
        return ClientSizes(range(len(self)), [node.samples or mean for node in self.nodes])

    def learn(self, client: ClientId, said: Report, samples: int, trip: float, known: bool) -> None:
        """Take a report in; a trip is ``known`` if its answer was collected as it came."""
        node = self.nodes[client]
        node.samples = samples
        if said.work and said.training_seconds > 0:
            now = said.work / max(said.training_seconds, said.work / UNMEASURED)  # nobody is faster
            node.speed += SHARE * (now - node.speed) if node.speed else now
        for last in self.rounds[-1:]:
            last[1:] = last[1] + said.loss_sum, last[2] + said.loss_count
        if known:
            node.ways = [*node.ways, max(0.0, trip - said.training_seconds)][-KEPT:]
            back = trip - said.age - said.handler_seconds
            # Ways back are from 0 to the whole way: what differs by more is a clock that was set.
            was_set = node.backs and abs(back - node.backs[-1]) > max(node.ways[-2:])
            node.backs = [*([] if was_set else node.backs), back][-KEPT:]

    def fade(self, client: ClientId) -> None:
        """Who sits out is not measured any more: believe a little less that it is too slow."""
        node = self.nodes[client]
        node.speed, node.ways = node.speed / FADING, [way * FADING for way in node.ways]

    def back(self, client: ClientId, deadline: float) -> float:
        """Mean + 2 sd of the ways back that were seen; a tenth of the deadline before the first."""
        if not (seen := self.nodes[client].backs):
            return deadline / 10
        return fmean(seen) + 2 * (pstdev(seen) if len(seen) > 1 else FIRST_SPREAD)

    def longest(self, work: int) -> float:
        """The longest update accepted: who does more goes further, but its work is its word."""
        middle = median(self.norms) if len(self.norms) >= FEWEST_NORMS else 0.0
        held = median([node.samples for node in self.nodes if node.samples] or [1])
        return LONGEST * middle * min(work, LONGEST**2 * held) ** 0.5 or float("inf")

    def accept(self, client: ClientId, norm: float, work: int) -> None:
        """A good answer, and how far it went by ``work`` samples."""
        self.nodes[client].lies = 0
        self.norms = [*self.norms, norm / work**0.5][-NORMS:]

    def refuse(self, client: ClientId, version: int) -> None:
        """A bad answer; after some in a row the node is left out, every time for twice as long."""
        node = self.nodes[client]
        node.lies, node.refused = node.lies + 1, node.refused + 1
        if node.lies >= LIES:
            node.lies, node.left_out = 0, 2 * node.left_out or LEFT_OUT
            node.left_out_until = version + 1 + node.left_out
            text = "node %d is left out of %d rounds: it sent %d bad answers in all"
            log(WARNING, text, client, node.left_out, node.refused)

    def seen(self, epochs: int, most: float) -> Seen:
        """What a deadline is decided by: who is online and was measured, and the rounds so far."""
        there = [self.nodes[client] for client in self.online if self.nodes[client].speed]
        known = np.array([(node.samples, node.speed, node.way) for node in there]).reshape(-1, 3)
        samples, speeds, ways = known.T
        rounds, drawn = np.array(self.rounds).reshape(-1, 3), np.ones(len(there), bool)
        return Seen(epochs, samples, speeds, ways, drawn, len(self.online), rounds, most)

    def to_json(self) -> dict[str, Any]:
        """All that was learned, for a checkpoint."""
        nodes = [asdict(node) for node in self.nodes]
        return {"names": self.names, "nodes": nodes, "norms": self.norms, "rounds": self.rounds}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Know again what a checkpoint holds."""
        self.names, self.norms = list(saved["names"]), list(saved["norms"])
        self.nodes = [Node(**node) for node in saved["nodes"]]
        self.rounds = [list(one) for one in saved.get("rounds", [])]  # or of an earlier version
