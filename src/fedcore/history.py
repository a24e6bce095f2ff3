"""The rounds of one run, and what they come to: the numbers of tables and of ``summary.json``."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedcore.records import RoundRecord
from fedcore.types import Params

STEADY = 10  # the paper's accuracies are means over rounds from this one on


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
