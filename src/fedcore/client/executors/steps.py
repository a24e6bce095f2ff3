"""Steps of a block, one after another: the plain way, for any device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedcore.client.executors.cohort_step import CohortBatch, CohortRule, cohort_step
from fedcore.client.executors.pool import Pool
from fedcore.coreset.proxies import HeadGradients
from fedcore.stacked import Form
from fedcore.types import Params


@dataclass(frozen=True, slots=True)
class Tape:
    """Rows of the pool and coefficients [steps, K, B], and pulls η μ_k [K] or None."""

    rows: Tensor
    coefficient: Tensor
    pull: Tensor | None


class Steps(Protocol):
    """Holds a block's parameters and moves them along tapes."""

    def start(self, params: Params, clients: int) -> None:
        """Put ``clients`` copies of the global model into the slots."""
        ...

    def params_of(self, slot: int) -> Params:
        """One client's parameters, as views that the next step overwrites."""
        ...

    def run(self, tape: Tape, watch: int) -> list[HeadGradients]:
        """Walk a tape; with ``watch`` (the last layer's width) what each step showed."""
        ...

    def keep(self, slots: Sequence[int]) -> None:
        """Drop all clients but those; they move up in this order."""
        ...


class EagerSteps:
    """One launch per operation."""

    def __init__(self, form: Form, pool: Pool, learning_rate: float) -> None:
        """Bind what all blocks share."""
        self._form = form
        self._pool = pool
        self._rate = learning_rate
        self._anchor: dict[str, Tensor] = {}
        self._stack: dict[str, Tensor] = {}

    def start(self, params: Params, clients: int) -> None:
        """Put ``clients`` copies of the global model into the slots."""
        self._anchor = {name: value.to(self._pool.device) for name, value in params.items()}
        self._stack = {
            name: value.expand(clients, *value.shape).clone().requires_grad_()
            for name, value in self._anchor.items()
        }

    def params_of(self, slot: int) -> Params:
        """One client's parameters, as views that the next step overwrites."""
        return {name: value.detach()[slot] for name, value in self._stack.items()}

    def run(self, tape: Tape, watch: int) -> list[HeadGradients]:
        """Walk a tape; with ``watch`` (the last layer's width) what each step showed."""
        rule = CohortRule(self._rate, tape.pull, self._anchor)
        shown = []
        for rows, coefficient in zip(tape.rows, tape.coefficient, strict=True):
            batch = CohortBatch(self._pool.x[rows], self._pool.y[rows], coefficient)
            seen = cohort_step(self._form, self._stack, batch, rule, watch)
            if seen is not None:
                shown.append(seen)
        return shown

    def keep(self, slots: Sequence[int]) -> None:
        """Drop all clients but those; they move up in this order."""
        chosen = torch.tensor(slots, device=self._pool.device)
        self._stack = {
            name: value.detach()[chosen].requires_grad_() for name, value in self._stack.items()
        }
