"""Several inputs of a model side by side, for models that take more than one tensor."""

from collections.abc import Iterable, Mapping
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


def joined(pieces: Iterable[tuple[Inputs, Tensor]]) -> tuple[Inputs, Tensor]:
    """Inputs and labels of all pieces, one piece after another."""
    inputs, labels = zip(*pieces, strict=True)
    if not isinstance(inputs[0], Bundle):
        return torch.cat(inputs), torch.cat(labels)
    parts = {name: [one.parts[name] for one in inputs] for name in inputs[0].parts}
    return Bundle({name: torch.cat(own) for name, own in parts.items()}), torch.cat(labels)
