"""What a selector chooses from, and the contract that all selectors share."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcore.coreset.metric import Metric
from fedcore.types import Coreset, Generator


@dataclass(frozen=True, slots=True)
class Candidates:
    """n samples as points of a space, with what else is known of them."""

    space: Metric  # where distances between (stand-ins for) gradients are measured
    labels: Tensor | None = None  # [n] classes, if there are any
    losses: Tensor | None = None  # [n] for selectors that go by them
    start: Tensor | None = None  # positions of an earlier coreset, for who can begin with one
    seconds: float | None = None  # wall-clock limit, for selectors that can stop early

    def __len__(self) -> int:
        return len(self.space)

    def take(self, indices: Tensor) -> "Candidates":
        """Some of them, with their share of the time; a start does not survive renumbering."""
        labels, losses = (None if v is None else v[indices] for v in (self.labels, self.losses))
        space, seconds = self.space.take(indices), self.seconds
        seconds = None if seconds is None else seconds * len(space) / len(self)
        return Candidates(space, labels, losses, seconds=seconds)

    def classes(self) -> Tensor:
        """Labels, or one class for all where there are none."""
        if self.labels is not None:
            return self.labels
        return torch.zeros(len(self), dtype=torch.int64, device=self.space.factors[0].device)


# A method picks at most ``budget`` of them, 1 <= budget < n; weights are positive, Σ = n.
Select = Callable[[Candidates, int, Generator], Coreset]
