"""What a run leaves behind: a record of every round, what they come to, what it takes to go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from fedcore.types import ClientId, Params, Path

STEADY = 10  # the paper's accuracies are means over rounds from this one on


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """What one client of a cohort did in a round, as the server saw it."""

    client_id: ClientId
    path: Path
    copies: int
    work: int  # samples processed
    seconds: float
    coreset_budget: int | None
    coreset_size: int | None = None
    gradient_error: float | None = None
    full_gradient_error: float | None = None
    fell_back: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All a server needs to go on: named tensors, and values that JSON can hold."""

    tensors: Mapping[str, Tensor]
    meta: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One round, from merge to merge: its length, and how good the model is; None: not measured."""

    number: int
    seconds: float
    deadline: float
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

    @property
    def time(self) -> float:
        """Length of the round in units of the deadline; above 1 is late."""
        return self.seconds / self.deadline


@dataclass(frozen=True, slots=True)
class RunKey:
    """Which run of a comparison: a strategy at a share of stragglers, with a seed."""

    benchmark: str
    strategy: str
    stragglers: float
    seed: int


@dataclass(frozen=True, slots=True)
class History:
    """All rounds of a run and the model it ended with."""

    rounds: tuple[RoundRecord, ...]
    params: Params = field(default_factory=dict)

    @property
    def final_test_accuracy(self) -> float | None:
        """Accuracy on the test data after the last round; None without test data."""
        return self.rounds[-1].test_accuracy

    @property
    def best_test_accuracy(self) -> float | None:
        """The best accuracy on the test data after any round; None without test data."""
        return max(self.accuracies("test"), default=None)

    @property
    def final_train_loss(self) -> float | None:
        """L(w) of Eq. 1 after the last round; None where nobody measured it."""
        return self.rounds[-1].train_loss

    @property
    def mean_round_time(self) -> float:
        """Mean length of a round in units of the deadline."""
        return float(np.mean([r.time for r in self.rounds]))

    @property
    def longest_round(self) -> float:
        """Length of the longest round in units of the deadline; above 1 is late."""
        return max(r.time for r in self.rounds)

    @property
    def deadline_misses(self) -> int:
        """How many rounds were late."""
        return sum(r.time > 1 for r in self.rounds)

    def accuracies(self, split: str, first: int = 1) -> list[float]:
        """Accuracies on ``split``, 'test' or 'train', from a round on, where they were measured."""
        values = (getattr(r, f"{split}_accuracy") for r in self.rounds if r.number >= first)
        return [value for value in values if value is not None]

    def steady_accuracy(self, split: str) -> float | None:
        """Mean accuracy from round 10 on, the figure of the paper's Table 2; None before it."""
        values = self.accuracies(split, STEADY)
        return float(np.mean(values)) if values else None
