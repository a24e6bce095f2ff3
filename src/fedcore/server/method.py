"""What a method is made of: a strategy and a sampler, both values made by functions.

Methods keep nothing themselves. What they have to remember goes through ``ServerState``, and so
into checkpoints: a run that goes on is the run that never stopped.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.errors import BadOption
from fedcore.seeding import stream
from fedcore.server.state import ServerState
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientId, ClientProfile, Generator, LocalPlan, LocalUpdate, Params
from fedcore.values import whole_number

Cohort: TypeAlias = Mapping[ClientId, int]  # client -> how often it was drawn


class Action(StrEnum):
    """What the server does after an event."""

    WAIT = "wait"
    MERGE = "merge"  # who has not answered goes on, and is merged later
    MERGE_AND_CANCEL = "merge-and-cancel"  # who has not answered is told to stop


class Situation(NamedTuple):
    """What the server sees when it decides."""

    answers: int  # taken into the merge that is under way; of a client drawn twice there are two
    in_flight: int  # jobs that are out
    alarm: bool  # whether the alarm of ``Pace`` rang since the last merge


def when_all_answered(seen: Situation) -> Action:
    """The synchronous round: merge when nobody is in flight."""
    return Action.WAIT if seen.in_flight else Action.MERGE


def after_answers(count: int, then: Action = Action.MERGE) -> Callable[[Situation], Action]:
    """Merge whenever so many answers are there."""
    whole_number("buffer", count, 1)
    return lambda seen: then if seen.answers >= count else Action.WAIT


@dataclass(frozen=True, slots=True)
class Pace:
    """When the server merges (asked after every event; at once if none is out) and hands out."""

    decide: Callable[[Situation], Action] = when_all_answered
    refill_at_once: bool = False  # hand out new jobs after every answer, not only after a merge
    concurrency: int | None = None  # jobs that are out at most; None: the clients of a round
    alarm: float | None = None  # rings so many deadlines after a merge; None: never
    quorum: int = 0  # with fewer answers a merge leaves everything as it was

    @property
    def synchronous(self) -> bool:
        """Whether every merge begins with nobody in flight."""
        return self.decide is when_all_answered and not self.refill_at_once


class Merging(Protocol):
    """A merge that is under way: answers are taken in one by one, and need not be kept."""

    def add(self, update: LocalUpdate, base: Params) -> None:
        """Take an answer in; ``base`` is the model that its training started from."""

    def finish(self) -> ServerState:
        """The state after the merge; the server counts the version."""


Merge: TypeAlias = Callable[[ServerState], Merging]
Plan: TypeAlias = Callable[[ClientProfile, float, int], LocalPlan]
Plans: TypeAlias = Mapping[ClientId, Plan]
Profiles: TypeAlias = Mapping[ClientId, ClientProfile]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to deal with slow clients."""

    # (client, seconds for its work, E) -> what it does: asked again, and ahead, so by these alone.
    plan: Plan
    merge: Merge  # ``server.merge`` has the usual ones, and one for all answers at once
    pace: Pace = field(default_factory=Pace)
    # What is added to every gradient of a client's next job, as SCAFFOLD does.
    shift: Callable[[ServerState, ClientId], Params | None] | None = None
    # Plans by one another or by the state; then every merge must leave nobody in flight.
    by_cohort: Callable[[ServerState, Profiles], Plans] | None = None
    in_parts: bool = False  # whether parts of a model are trained: its layers need an order
    keeps_deadline: bool = False  # whether no plan takes longer than it may: 'fedcore verify' looks

    def __post_init__(self) -> None:
        try:  # merge functions of earlier versions took all answers at once
            inspect.signature(self.merge).bind(None)
        except TypeError:
            takes = "merge of a Strategy takes the server's state alone and gives what has add"
            wrap = "wrap a function of (state, answers) in server.merge.all_at_once"
            raise BadOption(f"{takes} and finish; {wrap}") from None
        try:
            inspect.signature(self.plan).bind(None, None, None)
        except TypeError:
            told = "plan of a Strategy takes a client, the seconds of its work and the epochs"
            raise BadOption(f"{told}; see examples/own_strategy.py") from None


def full_seconds(profiles: Profiles, epochs: int, model_bytes: int = 0) -> NDArray[np.float64]:
    """E·m^i / c^i + transfer, of each client: what a whole round takes it."""
    seconds = (c.seconds(epochs * c.num_samples, model_bytes) for c in profiles.values())
    return np.fromiter(seconds, np.float64, len(profiles))


@dataclass(frozen=True, slots=True)
class Draw:
    """What a sampler is asked: ``count`` of the clients that are idle."""

    count: int
    version: int  # of the model that they will start from
    seed: int
    sizes: ClientSizes
    profiles: Mapping[ClientId, ClientProfile]
    again: int = 0  # how many draws were made from that version before
    busy: frozenset[ClientId] = frozenset()  # who has not answered yet, or is away
    memory: Params = field(default_factory=dict)  # what ``Sampler.observe`` made of the answers
    # (clients, seconds) -> their mean losses of the model, after so long; None: nobody can tell.
    ask: Callable[[Sequence[ClientId], float], list[float]] | None = None

    def generator(self) -> Generator:
        """The random stream of this draw; it knows nothing of the strategy."""
        again = ("again", self.again) if self.again else ()
        return stream(self.seed, "cohort", self.version + 1, *again)

    def idle(self) -> NDArray[np.int64]:
        """Places of the clients that may be drawn."""
        everybody = np.arange(len(self.sizes))
        return np.delete(everybody, [self.sizes.place(client) for client in self.busy])

    def seconds(self, epochs: int, model_bytes: int) -> NDArray[np.float64]:
        """Download, E m / c and upload of every client, by what is known of it."""
        return full_seconds(self.profiles, epochs, model_bytes)

    def cohort(self, places: Sequence[int]) -> Cohort:
        """The clients at these places, and how often each was drawn."""
        return Counter(self.sizes.ids[place] for place in places)


@dataclass(frozen=True, slots=True)
class Sampler:
    """Who takes part: a draw, by its argument alone, and what is remembered of answers for it."""

    draw: Callable[[Draw], Cohort]
    # The memory with an answer in it; None: it does not look back, and can be asked rounds ahead.
    observe: Callable[[Params, LocalUpdate, ClientSizes], Params] | None = None


def table(memory: Params, name: str, rows: int, columns: int) -> Tensor:
    """A copy of a table that was kept, of so many rows at least; what is new is zero."""
    known = memory.get(name, torch.zeros(0, columns, dtype=torch.float64))
    return torch.cat([known, torch.zeros(max(0, rows - len(known)), columns, dtype=torch.float64)])
