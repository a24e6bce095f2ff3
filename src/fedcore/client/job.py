"""One client's way through its plan: what to do next, for whoever takes the steps.

Executors differ in how steps are taken. What is trained on, in which order, who waits for whom
and what the answer says is decided here, once for all of them (Algorithm 1, lines 6 to 12).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcore.client.coresets import GRADIENTS_FIRST, Coresets, Watched, asks_nothing_of_the_model
from fedcore.client.schedule import BatchSchedule, Samples, schedule
from fedcore.coreset.collect import head_gradients
from fedcore.coreset.proxies import NONE, HeadGradients
from fedcore.errors import BadOption
from fedcore.seeding import stream
from fedcore.task import Task
from fedcore.types import Assignment, ClientData, LocalPlan, LocalUpdate, Params, Phase

LOOK_CHUNK = 128  # samples of a forward-only pass at a time: it changes no result

# A client whose coreset is being chosen rests for this share of the steps of one epoch, ready or
# not. Were it to go on as soon as the choice is there, timing would say who is stepped together
# with whom, and with that how libraries round.
REST = 1 / 8


@dataclass(frozen=True, slots=True)
class Train:
    """Take the steps of a tape; with ``watch``, hand back what its samples' gradients were."""

    tape: BatchSchedule
    watch: bool
    first_epoch: int  # steps from the beginning whose losses are to be noted
    coreset: Samples | None  # what it is the tape of, unless of everything


@dataclass(frozen=True, slots=True)
class Look:
    """Pass forward over everything and hand back what was seen (section 4.4 b)."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Let others take so many steps: a coreset is being chosen. Who trains alone goes on."""

    steps: int


class Job:
    """An assignment being followed."""

    def __init__(
        self, assignment: Assignment, num_samples: int, batch_size: int, coresets: Coresets
    ) -> None:
        """Stand before the first phase; later coresets that need no gradients are begun."""
        self.assignment = assignment
        self.full_gradient_error: float | None = None
        self._num_samples = num_samples
        self._batch_size = batch_size
        self._coresets = coresets
        self._early = {
            number: coresets.begin(assignment, number)
            for number, phase in enumerate(assignment.plan.phases)
            if number > 0 and phase.coreset is not None and asks_nothing_of_the_model(phase.coreset)
        }
        self._coreset: Samples | None = None
        self._steps = 0
        self._loss_sums: list[Tensor] = []
        self._loss_count = 0
        self._way = self._follow()

    def next(self, watched: Watched | None = None) -> Train | Look | Rest | None:
        """What to do now, given what the last thing to do has shown; None at the end."""
        try:
            return self._way.send(watched)
        except StopIteration:
            return None

    def note_losses(self, sums: Tensor) -> None:
        """Add (Σ L, Σ L²) [2] of steps of the first epoch; they may lie on a device."""
        self._loss_sums.append(sums)

    def answer(self, params: Params) -> LocalUpdate:
        """What the server gets."""
        sums = torch.stack(self._loss_sums).sum(0).tolist() if self._loss_sums else (0.0, 0.0)
        coreset = self._coreset
        return LocalUpdate(
            self.assignment.client_id,
            params,
            self._num_samples,
            base_version=self.assignment.base_version,
            steps=self._steps,
            loss_sum=sums[0],
            loss_square_sum=sums[1],
            loss_count=self._loss_count,
            fell_back=coreset is not None and coreset.fell_back,
            coreset_size=None if coreset is None else len(coreset.indices),
            gradient_error=None if coreset is None else coreset.gradient_error,
            full_gradient_error=self.full_gradient_error,
        )

    def _follow(self) -> Generator[Train | Look | Rest, Watched | None, None]:
        assignment, phases = self.assignment, self.assignment.plan.phases
        watched: Watched | None = None
        for number, phase in enumerate(phases):
            if phase.forward_price is not None:
                watched = yield Look()
                continue
            pending = self._early.get(number)
            if pending is None:
                pending = self._coresets.begin(assignment, number, watched)
                if phase.coreset is not None and phase.coreset.proxy != NONE:
                    yield Rest(math.ceil(REST * -(-self._num_samples // self._batch_size)))
            samples = pending()
            if phase.coreset is not None:
                self._coreset = samples
            tape = phase_schedule(assignment, number, samples, self._batch_size)
            epoch = 0 if self._steps else -(-len(samples.indices) // self._batch_size)
            self._loss_count += int((tape.coefficient[:epoch] > 0).sum())
            self._steps += len(tape)
            coreset = None if phase.coreset is None else samples
            watched = yield Train(tape, _yields_gradients(phases, number), epoch, coreset)


def _yields_gradients(phases: Sequence[Phase], number: int) -> bool:
    """Whether the coreset of the phase after ``number`` is chosen by gradients of this one.

    Raises:
        BadOption: If it does not meet every sample once, which is what one gradient each takes.
    """
    following = phases[number + 1].coreset if number + 1 < len(phases) else None
    needed = following is not None and not asks_nothing_of_the_model(following)
    if needed and (phases[number].coreset is not None or phases[number].epochs != 1):
        raise BadOption(GRADIENTS_FIRST)
    return needed


def waits_for_gradients(plan: LocalPlan) -> bool:
    """Whether a phase cannot be scheduled before an earlier one was trained or looked at."""
    specs = [phase.coreset for phase in plan.phases if phase.coreset is not None]
    looks = any(phase.forward_price is not None for phase in plan.phases)
    return looks or not all(asks_nothing_of_the_model(spec) for spec in specs)


def phase_schedule(
    assignment: Assignment, phase: int, samples: Samples, batch_size: int
) -> BatchSchedule:
    """The batches of one phase, from the random stream that belongs to it."""
    draws = stream(assignment.seed, *assignment.path("shuffle", phase))
    return schedule(samples, assignment.plan.phases[phase].epochs, batch_size, draws)


def look(task: Task, params: Params, data: ClientData) -> Watched:
    """A forward pass on everything, for the last layer's gradients alone."""
    starts = range(0, len(data), LOOK_CHUNK)
    batches = (data.take(slice(start, start + LOOK_CHUNK)) for start in starts)
    return watched_at(task, params, head_gradients(task, params, batches))


def watched_at(task: Task, params: Params, gradients: HeadGradients) -> Watched:
    """Gradients and the last layer's weight, copied: parameters may move on in place."""
    return Watched(gradients, task.head_weight(params).detach().clone(), task.head_has_bias)


def loss_sums(losses: Tensor) -> Tensor:
    """(Σ L, Σ L²) over the last axis, in float64: [..., 2]."""
    exact = losses.double()
    return torch.stack([exact.sum(-1), exact.square().sum(-1)], dim=-1)
