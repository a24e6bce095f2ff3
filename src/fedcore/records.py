"""What a run leaves behind: a record of every round, and what it takes to go on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from torch import Tensor

from fedcore.types import Assignment, ClientId, Way


class Waste(StrEnum):
    """Why nothing came of a client's work."""

    CANCELLED = "cancelled"  # the server merged without it, and told it to stop
    REJECTED = "rejected"  # its answer held NaN or infinity
    LOST = "lost"  # the client dropped out


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """What one client of a cohort did in a round, as the server saw it."""

    client_id: ClientId
    path: Way
    copies: int
    work: int  # samples that it was asked to process
    seconds: float  # that it took, or had spent when it was told to stop
    coreset_budget: int | None
    coreset_size: int | None = None
    gradient_error: float | None = None
    full_gradient_error: float | None = None
    fell_back: bool = False
    wasted: Waste | None = None
    staleness: int = 0  # merges between its start and the one that took its answer in
    sent: int = 0  # bytes of its answer, where that is a part of a model
    ended: float | None = None  # seconds after the last merge; None: it began with that


Event = dict[str, Any]  # something that happened to a job: a line of events.jsonl


def event(kind: str, time: float, told: Assignment, **more: Any) -> Event:
    """What happened to the job that was told so, in virtual seconds since the run's start."""
    job = {"client": told.client_id, "base_version": told.base_version, "repeat": told.repeat}
    return {"event": kind, "time": time, **job, **more}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All a server needs to go on: named tensors, and values that JSON can hold."""

    tensors: Mapping[str, Tensor]
    meta: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known of a run when its last round is over."""

    deadline_seconds: float  # rounds on disk are in units of it
    model_bytes: int
    clients: int  # of the fleet
    slow_clients: int  # for whom E epochs on everything end after the deadline
    slow_accuracy: float | None  # over the training samples of slow clients; None: no such sample
    worst_accuracy: float | None  # of the worst tenth of clients, each on its training samples
    validation_accuracy: float | None = None  # on the half that step sizes are chosen by


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One round, from merge to merge: its length, and how good its model is; None: not measured."""

    number: int
    seconds: float
    deadline: float  # of the run, in units of which times are told
    clients: tuple[ClientRecord, ...]
    rejected: int  # answers with NaN or infinity in them, which were left out
    train_loss: float | None
    train_accuracy: float | None
    test_loss: float | None
    test_accuracy: float | None
    wall_seconds: float
    # Parts of it; see SelectionTime. Real time is no part of what a round is compared by.
    training_seconds: float = field(default=0.0, compare=False)  # with waiting for selection
    selection_seconds: float = field(default=0.0, compare=False)
    waited_seconds: float = field(default=0.0, compare=False)
    evaluation_seconds: float = field(default=0.0, compare=False)
    cut: bool = False  # by the time budget: nothing was merged, and the run is over
    events: tuple[Event, ...] = field(default=(), compare=False)
    ending: Ending | None = None  # of the last round
    allowed: float | None = None  # seconds it might last, where a controller decides
    reason: str = ""  # why so many
    metrics: Mapping[str, float | None] = field(default_factory=dict)  # of held-out data, by name

    @property
    def time(self) -> float:
        """Length of the round in units of the run's deadline."""
        return self.seconds / self.deadline

    @property
    def measured(self) -> bool:
        """Whether its model was measured on anything; what diverged there is None as well."""
        return {self.train_loss, self.train_accuracy, self.test_loss, self.test_accuracy} != {None}


@dataclass(frozen=True, slots=True)
class RunKey:
    """A run of a comparison: a strategy, stragglers, a seed; of several step sizes, one."""

    benchmark: str
    strategy: str
    stragglers: float
    seed: int
    learning_rate: float | None = None

    @property
    def name(self) -> str:
        """What its files are called; those of a benchmark have a folder."""
        rate = f"-{self.learning_rate:g}" if self.learning_rate else ""
        return f"{self.strategy}-{self.stragglers:g}-seed-{self.seed}{rate}"
