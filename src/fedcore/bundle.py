"""Several inputs of a model side by side, for models that take more than one tensor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Inputs = Any  # of a batch: a tensor, or a Bundle


@dataclass(frozen=True, slots=True)
class Bundle:
    """Tensors with a row a sample each: a model's arguments by place (0, 1, ...) or by name."""

    parts: Mapping[int | str, Tensor]

    def __len__(self) -> int:
        return len(next(iter(self.parts.values())))

    def __getitem__(self, rows: Any) -> "Bundle":
        return Bundle({name: part[rows] for name, part in self.parts.items()})

    def to(self, device: torch.device) -> "Bundle":
        """The same on another device."""
        return Bundle({name: part.to(device) for name, part in self.parts.items()})

    def flat(self) -> Tensor:
        """All numbers of a sample in a row."""
        return torch.cat([part.reshape(len(self), -1) for part in self.parts.values()], dim=1)


def parts_of(inputs: Inputs) -> Mapping[int | str, Tensor]:
    """Tensors by what a model calls them; one alone is its first argument."""
    return inputs.parts if isinstance(inputs, Bundle) else {0: inputs}


def joined(pieces: Sequence[Inputs]) -> Inputs:
    """Samples of all pieces, one piece after another."""
    if isinstance(pieces[0], Bundle):
        return Bundle({n: torch.cat([one.parts[n] for one in pieces]) for n in pieces[0].parts})
    return torch.cat(list(pieces))
