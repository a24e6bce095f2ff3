"""One client's way through its plan, for whoever takes the steps (Algorithm 1, lines 6 to 12)."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from fedcore.client.coresets import GRADIENTS_FIRST, Coresets, Watched, asks_nothing_of_the_model
from fedcore.client.schedule import NOTHING, BatchSchedule, Samples, schedule
from fedcore.coreset.proxies import NONE, REMEMBERED, HeadGradients, head_gradients
from fedcore.errors import BadOption
from fedcore.seeding import stream
from fedcore.task import Task, trained_names
from fedcore.types import Assignment, ClientData, LocalPlan, LocalUpdate, Params, TrainingSettings

# Samples at a time, which changes no result: of a forward-only pass, and where ε is measured
LOOK_CHUNK, MEASURE_CHUNK = 128, 256

# Of the steps of an epoch: so long a client rests whose coreset is being chosen, ready or not. Were
# it to go on at once, timing would say who is stepped with whom, and so how libraries round.
REST = 1 / 8
LEAST_REST = 4  # steps, beside a GPU: it would stand still while many small coresets are chosen


class Job:
    """An assignment being followed."""

    def __init__(
        self,
        assignment: Assignment,
        task: Task,
        data: ClientData,
        settings: TrainingSettings,
        coresets: Coresets,
    ) -> None:
        """Stand before the first phase; later coresets that need no gradients are begun."""
        self.assignment, self.task, self.data = assignment, task, data
        self.settings, self._coresets = settings, coresets
        self._early = {
            number: coresets.begin(assignment, number)
            for number, phase in enumerate(assignment.plan.phases)
            if number > 0 and phase.coreset is not None and asks_nothing_of_the_model(phase.coreset)
        }
        self.looked: Watched | None = None  # what a first look would show, if that is known
        self.noted: list[Tensor] = []  # (Σ L, Σ L²) of steps of the first epoch, on any device
        self._met = self._steps = 0
        self._answer = LocalUpdate(
            assignment.client_id, {}, len(data), base_version=assignment.base_version
        )
        self._way = self._follow()

    def needed(self) -> ClientData:
        """Its samples; who trains on one plain draw alone makes it now, and needs no others."""
        first, *more = self.assignment.plan.phases
        drawn = first.coreset is not None and first.coreset.proxy == NONE
        if more or not drawn or self.settings.measure_full_gradient:
            return self.data
        samples = self._coresets.begin(self.assignment, 0)()
        self._early[0] = partial(replace, samples, indices=np.arange(len(samples.indices)))
        return ClientData(*self.data.take(torch.from_numpy(samples.indices)))

    def next(self, params: Params, seen: HeadGradients | None = None) -> BatchSchedule | None:
        """What to do now, None at the end; ``seen`` are all samples' gradients, if watched."""
        self._params, self._seen = params, seen
        return next(self._way, None)

    def answer(self, params: Params) -> LocalUpdate:
        """What the server gets."""
        share = self.assignment.plan.trained_share
        if share < 1:  # the rest stayed as it was, and is not sent
            params = {name: params[name] for name in trained_names(params, share)}
        total, squares = torch.stack(self.noted or [torch.zeros(2)]).sum(0).tolist()
        found = {"loss_sum": total, "loss_square_sum": squares, "loss_count": self._met}
        return replace(self._answer, params=params, steps=self._steps, **found)

    def _follow(self) -> Iterator[BatchSchedule]:
        assignment = self.assignment
        size, batch_size = len(self.data), self.settings.batch_size
        watched: Watched | None = None
        for number, phase in enumerate(assignment.plan.phases):
            if phase.forward_price is not None:
                # For the last layer's gradients alone (section 4.4 b)
                watched = self.looked or self._watched(self._passed(torch.arange(size)))
                self.looked = None
                continue
            choose = self._early.get(number)
            if phase.coreset is not None and phase.coreset.proxy == REMEMBERED:
                choose = partial(self._coresets.by_losses, assignment, phase, self._passed)
            elif choose is None:
                choose = self._coresets.begin(assignment, number, watched)
                if phase.coreset is not None and phase.coreset.proxy != NONE:
                    least = LEAST_REST if self.data.y.is_cuda else 1
                    rest = max(least, math.ceil(REST * -(-size // batch_size)))
                    yield replace(NOTHING, rest=rest)
            samples = choose()
            if phase.coreset is not None:
                self._note_coreset(samples)
            tape = phase_schedule(assignment, number, samples, batch_size)
            first_epoch = 0
            if not self._steps:
                self._met = len(samples.indices)
                first_epoch = -(-self._met // batch_size)
            self._steps += len(tape.index)
            watch = _yields_gradients(assignment.plan, number)
            yield replace(tape, watch=watch, first_epoch=first_epoch)
            watched = None if self._seen is None else self._watched(self._seen)

    def _passed(self, indices: Tensor) -> HeadGradients:
        """What some samples show, at the parameters as they are now."""
        batches = (self.data.take(part) for part in torch.split(indices, LOOK_CHUNK))
        return head_gradients(self.task, self._params, batches)

    def _watched(self, gradients: HeadGradients) -> Watched:
        """With a copy of the last layer's weight: parameters may move on in place."""
        weight = self.task.head_weight(self._params).detach().to("cpu", copy=True)
        here = HeadGradients(*(values.cpu() for values in gradients))
        return Watched(here, weight, self.task.head_has_bias)

    def _note_coreset(self, samples: Samples) -> None:
        """Its size and its ε; on the whole model only where asked for."""
        asked = self.settings.measure_full_gradient
        here = self.task, self._params, self.data, samples
        self._answer = replace(
            self._answer,
            fell_back=samples.fell_back,
            coreset_size=len(samples.indices),
            gradient_error=samples.gradient_error,
            payload=samples.told,
            full_gradient_error=full_gradient_error(*here) if asked else None,
        )


def _yields_gradients(plan: LocalPlan, number: int) -> bool:
    """Whether the coreset of the next phase goes by gradients of this one, one of each sample."""
    own, *after = plan.phases[number:]
    following = after[0].coreset if after else None
    needed = following is not None and not asks_nothing_of_the_model(following)
    if needed and (own.coreset is not None or own.epochs != 1):
        raise BadOption(GRADIENTS_FIRST)
    return needed


def waits_for_gradients(plan: LocalPlan) -> bool:
    """Whether a phase cannot be scheduled before an earlier one was trained."""
    trained = (n for n, phase in enumerate(plan.phases) if phase.forward_price is None)
    later = plan.phases[next(trained, -1) + 1 :]
    specs = [phase.coreset for phase in later if phase.coreset is not None]
    looks = any(phase.forward_price is not None for phase in later)
    return looks or not all(asks_nothing_of_the_model(spec) for spec in specs)


def phase_schedule(
    assignment: Assignment, phase: int, samples: Samples, batch_size: int
) -> BatchSchedule:
    """The batches of one phase, from the random stream that belongs to it."""
    draws = stream(assignment.seed, *assignment.path("shuffle", phase))
    epochs = samples.epochs or assignment.plan.phases[phase].epochs
    return schedule(samples, epochs, batch_size, draws)


def loss_sums(losses: Tensor) -> Tensor:
    """(Σ L, Σ L²) over the last axis, in float64: [..., 2]."""
    exact = losses.double()
    return torch.stack([exact.sum(-1), exact.square().sum(-1)], dim=-1)


def full_gradient_error(task: Task, params: Params, data: ClientData, samples: Samples) -> float:
    """ε on the whole model (Assumption A.3): ||Σ_j ∇L_j - Σ_k δ_k ∇L_k|| / ||Σ_j ∇L_j||."""

    def gradient(own: Samples) -> Tensor:
        """Σ δ ∇L, all parameters in one vector."""
        leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
        total = torch.zeros(sum(value.numel() for value in params.values()), dtype=torch.float64)
        for start in range(0, len(own.indices), MEASURE_CHUNK):
            part = slice(start, start + MEASURE_CHUNK)
            x, y = data.take(torch.from_numpy(own.indices[part]))
            losses = task.losses(task.logits(leaves, x), y)
            loss = (torch.from_numpy(own.weights[part]).to(losses) * losses).sum()
            found = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
            total += torch.cat([one.flatten() for one in found]).double().cpu()
        return total

    whole = gradient(Samples.everything(len(data)))
    norm = float(whole.norm())
    return float((whole - gradient(samples)).norm()) / norm if norm > 0 else 0.0
