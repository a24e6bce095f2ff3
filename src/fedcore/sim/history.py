"""What a simulation gives back."""

from __future__ import annotations

from dataclasses import dataclass

from fedcore.records import RoundRecord
from fedcore.types import Params


@dataclass(frozen=True, slots=True)
class History:
    """All rounds of a run and the model it ended with."""

    rounds: tuple[RoundRecord, ...]
    params: Params

    @property
    def final_test_accuracy(self) -> float | None:
        """Accuracy on the test data after the last round; None without test data."""
        return self.rounds[-1].test_accuracy

    @property
    def best_test_accuracy(self) -> float | None:
        """The best accuracy on the test data after any round; None without test data."""
        known = [r.test_accuracy for r in self.rounds if r.test_accuracy is not None]
        return max(known, default=None)

    @property
    def final_train_loss(self) -> float:
        """L(w) of Eq. 1 after the last round."""
        return self.rounds[-1].train_loss

    @property
    def mean_round_time(self) -> float:
        """Mean length of a round in units of the deadline."""
        return sum(r.time for r in self.rounds) / len(self.rounds)

    @property
    def longest_round(self) -> float:
        """Length of the longest round in units of the deadline; above 1 is late."""
        return max(r.time for r in self.rounds)

    @property
    def deadline_misses(self) -> int:
        """How many rounds were late."""
        return sum(r.time > 1 for r in self.rounds)
