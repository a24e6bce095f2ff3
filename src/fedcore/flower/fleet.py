"""What the server knows of its nodes, in checkpoints too, and the letters that are out to them."""

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from logging import INFO, WARNING
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Any, cast

import numpy as np
import torch
from flwr.app import Message
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore import log

from fedcore.errors import BadOption, BadRecord, FedCoreError
from fedcore.flower.wire import Report
from fedcore.records import RunKey, Snapshot
from fedcore.report.output import load_checkpoint, save_checkpoint
from fedcore.server.controller import SHARE, Seen
from fedcore.server.state import Job, ServerState, from_snapshot, to_snapshot
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientId, ClientProfile

FADING = 0.8  # of what is known of a node that sits out, every round
UNMEASURED = 1e9  # samples a second: who is not known yet is told to do everything
KEPT, RECENT = 16, 4  # trips that are remembered, and those whose mean is the way
FIRST_SPREAD = 0.5  # seconds, of ways back while there is only one
NORMS, FEWEST_NORMS, LONGEST = 64, 3, 10.0  # updates at most so many times the median in length
LIES, LEFT_OUT = 3, 5  # bad answers in a row, and rounds that a node is left out after them
AT_ONCE = 16  # answers of one call: memory follows these, not all that are out
TTL = 3.0  # times a job's limit that a message may live: who is busy is not asked again before
PROMPT = 1.0  # seconds between two pulls, at most, for a trip to be known
FORMAT, CHECKPOINTS, FILES = 1, 3, "round-*.safetensors"


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
        self.norms: list[float] = []  # of updates that were accepted
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
        known = [node.samples for node in self.nodes if node.samples]
        mean = round(fmean(known or [1]))
        return ClientSizes(range(len(self)), [node.samples or mean for node in self.nodes])

    def learn(self, client: ClientId, said: Report, samples: int, trip: float, known: bool) -> None:
        """Take a report in; a trip is ``known`` if its answer was collected as it came."""
        node = self.nodes[client]
        node.samples = samples
        if said.work and said.training_seconds > 0:
            now = said.work / said.training_seconds
            node.speed += SHARE * (now - node.speed) if node.speed else now
        for last in self.rounds[-1:]:
            last[1:] = last[1] + said.loss_sum, last[2] + said.loss_count
        if known:
            node.ways = [*node.ways, max(0.0, trip - said.training_seconds)][-KEPT:]
            node.backs = [*node.backs, trip - said.age - said.handler_seconds][-KEPT:]

    def fade(self, client: ClientId) -> None:
        """Who sits out is not measured any more: believe a little less that it is too slow."""
        node = self.nodes[client]
        node.speed, node.ways = node.speed / FADING, [way * FADING for way in node.ways]

    def back(self, client: ClientId, deadline: float) -> float:
        """Mean + 2 sd of the ways back that were seen; a tenth of the deadline before the first."""
        if not (seen := self.nodes[client].backs):
            return deadline / 10
        return fmean(seen) + 2 * (pstdev(seen) if len(seen) > 1 else FIRST_SPREAD)

    def longest(self) -> float:
        """The longest update that is accepted."""
        middle = median(self.norms) if len(self.norms) >= FEWEST_NORMS else 0.0
        return LONGEST * middle or float("inf")

    def accept(self, client: ClientId, norm: float) -> None:
        """A good answer, and how far it went."""
        self.nodes[client].lies = 0
        self.norms = [*self.norms, norm][-NORMS:]

    def refuse(self, client: ClientId, version: int) -> None:
        """A bad answer; after some in a row the node is left out, every time for twice as long."""
        node = self.nodes[client]
        node.lies, node.refused = node.lies + 1, node.refused + 1
        if node.lies >= LIES:
            node.lies, node.left_out = 0, 2 * node.left_out or LEFT_OUT
            node.left_out_until = version + 1 + node.left_out
            text = "node %d is left out of %d rounds: it sent %d bad answers in all"
            log(WARNING, text, client, node.left_out, node.refused)

    def left_out(self, version: int) -> set[ClientId]:
        """Who is left out of a round for bad answers."""
        return {c for c in self.online if self.nodes[c].left_out_until > version}

    def seen(self, epochs: int, most: float) -> Seen:
        """What a deadline is decided by: who is online and was measured, and the rounds so far."""
        there = [self.nodes[client] for client in self.online if self.nodes[client].speed]
        known = np.array([(node.samples, node.speed, node.way) for node in there]).reshape(-1, 3)
        samples, speeds, ways = known.T
        rounds, drawn = np.array(self.rounds).reshape(-1, 3), np.ones(len(there), bool)
        return Seen(epochs, samples, speeds, ways, drawn, len(self.online), rounds, most)

    def known_ways(self) -> list[float]:
        """Seconds of the way to who is online, which are known from trip 2 on."""
        there = (self.nodes[client] for client in self.online)
        return [node.way for node in there if len(node.ways) > 1]

    def to_json(self) -> dict[str, Any]:
        """All that was learned, for a checkpoint."""
        nodes = [dataclasses.asdict(node) for node in self.nodes]
        return {"names": self.names, "nodes": nodes, "norms": self.norms, "rounds": self.rounds}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Know again what a checkpoint holds."""
        self.names, self.norms = list(saved["names"]), list(saved["norms"])
        self.nodes = [Node(**node) for node in saved["nodes"]]
        self.rounds = [list(one) for one in saved.get("rounds", [])]  # none before 0.5


def save(folder: Path, run: RunKey, state: ServerState, fleet: Fleet) -> None:
    """Write the state after a round; jobs in flight are lost with the process that sent them."""
    saved = to_snapshot(replace(state, jobs=()))
    own = {"format": FORMAT, "fleet": fleet.to_json()}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"round-{state.version:08d}.safetensors"
    save_checkpoint(path, run, state.version, Snapshot(saved.tensors, {**saved.meta, **own}))
    for old in sorted(folder.glob(FILES))[:-CHECKPOINTS]:
        old.unlink(missing_ok=True)


def latest(folder: Path, run: RunKey, start: ServerState, fleet: Fleet) -> ServerState:
    """The state after the last round that is whole on disk, and its fleet; else ``start``."""
    for path in folder.glob("round-*.npz"):
        what = f"{str(path)!r} is a checkpoint of an earlier version"
        raise BadOption(f"{what}; end the run with that one, or name another folder")
    for path in sorted(folder.glob(FILES), reverse=True):
        try:
            owner, _, saved = load_checkpoint(path) or (run, 0, Snapshot({}, {}))
            if saved.meta.get("format") != FORMAT:
                raise BadRecord(f"{str(path)!r} is no checkpoint of this version")
        except BadRecord as error:
            log(WARNING, "%s; the one before it is used", error)
            continue
        state = from_snapshot(saved, torch.device("cpu"), cast(Any, None))  # it has no jobs
        models = [{n: (v.shape, v.dtype) for n, v in s.params.items()} for s in (state, start)]
        if owner != run or models[0] != models[1]:
            what = f"{str(path)!r} is of another job, {owner.strategy} with seed {owner.seed}, or"
            raise BadOption(f"{what} of another model; name another checkpoint folder")
        fleet.restore(saved.meta["fleet"])
        log(INFO, "going on after round %d, from %s", state.version, path)
        return state
    return start


@dataclass(slots=True, eq=False)
class Letter:
    """A message that is out, and what came of it."""

    client: ClientId
    job: Job | None  # None: an evaluation
    limit: float  # seconds that the node has
    sent: float = 0.0  # when
    wanted: bool = True  # False: too late, but the node still owes the answer
    answer: Message | None = None  # None: there is none, or its bytes are no message
    trip: float = 0.0  # seconds
    timely: bool = False  # collected as it came, so that the trip is known


class Post:
    """All letters of a run, by the id of their message: the sender of an error is not its node.

    No wait for an answer is without end, as Flower's own are.
    """

    def __init__(
        self, grid: Grid, monotonic: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self.grid, self.monotonic, self.sleep = grid, monotonic, sleep
        self.out: dict[str, Letter] = {}
        self._pulled = monotonic()  # when all were asked for the last time

    def busy(self) -> set[ClientId]:
        """Who has not answered, in time or not."""
        return {letter.client for letter in self.out.values()}

    def push(self, messages: Sequence[Message], letters: Sequence[Letter]) -> list[Letter]:
        """Send; gives those that were not taken, as when their node has just left."""
        for message, letter in zip(messages, letters, strict=True):
            message.metadata.ttl = TTL * letter.limit
        ids, sent = list(self.grid.push_messages(messages)) if messages else [], self.monotonic()
        if len(ids) != len(messages):
            what = f"the SuperLink took {len(ids)} of {len(messages)} messages"
            raise FedCoreError(f"{what}; its log says why, most likely the model is too large")
        for letter in letters:
            letter.sent = sent
        named = list(zip(ids, letters, strict=True))
        self.out.update({key: letter for key, letter in named if key})
        return [letter for key, letter in named if not key]

    def pull(self) -> list[Letter]:
        """Some that are answered since, if any are; else those that were let expire."""
        now, ids = self.monotonic(), list(self.out)
        timely = now - self._pulled <= PROMPT
        found: dict[str, Message | None] = {}
        while ids and not found:
            found, ids = self._collect(ids[:AT_ONCE]), ids[AT_ONCE:]
        if not found:
            self._pulled = now
            found = {k: None for k, one in self.out.items() if one.sent + TTL * one.limit <= now}
        letters = [self.out.pop(key) for key in found]
        for letter, answer in zip(letters, found.values(), strict=True):
            letter.answer, letter.timely = answer, timely
            letter.trip = self.monotonic() - letter.sent
        return letters

    def _collect(self, ids: Sequence[str]) -> dict[str, Message | None]:
        """The answers to ``ids``; None is one that cannot be read, which must not harm others."""
        try:
            told = {m.metadata.reply_to_message_id: m for m in self.grid.pull_messages(ids)}
            return {key: message for key, message in told.items() if key in self.out}
        except Exception as error:
            self.grid.get_nodes()  # which ends the run if the SuperLink does not answer
            if len(ids) > 1:
                return {k: message for one in ids for k, message in self._collect([one]).items()}
            log(WARNING, "an answer cannot be read: %r", error)
            return {ids[0]: None}
