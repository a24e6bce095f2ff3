"""``on_time``: a loader that ends in time, around which the user's own training loop stays.

    batches = on_time(trainloader, model, msg, context)
    for x, y in batches: ...
    return batches.reply(model.state_dict())

The first epoch yields everything while hooks look at the last layer's gradients. Then the coreset
is chosen, as large as the time that is left allows, and drawn from in proportion to its weights: so
a plain mean, momentum and Adam are right as they are. It ends before a batch that would be late.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from operator import length_hint
from typing import Any

import numpy as np
import torch
from flwr.app import Context, Message
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from fedcore.client.coresets import build_samples, needs_losses
from fedcore.client.job import phase_schedule
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.proxies import NONE
from fedcore.errors import BadOption
from fedcore.flower.turn import WALL, Clock, Turn
from fedcore.flower.watching import Watching
from fedcore.types import Phase, Weighting


class on_time:  # noqa: N801, used like a function
    """All epochs of an order in one go; a second iteration yields nothing.

    ``report()`` are numbers for a MetricRecord, ``reply(state_dict)`` is the whole answer.
    """

    def __init__(
        self,
        trainloader: DataLoader[Any],
        model: nn.Module,
        msg: Message,
        context: Context,
        *,
        clock: Clock = WALL,
    ) -> None:
        """Bind the user's loader, with its shuffling, workers and collate function, and model.

        ``prox_mu`` and ``step_scale`` of the order are for the user's loss:
        step_scale · L + prox_mu / 2 · ||w - w_r||².
        """
        sampled = isinstance(trainloader, DataLoader) and trainloader.batch_sampler is not None
        if not sampled or isinstance(trainloader.dataset, IterableDataset):
            raise BadOption("trainloader must be a DataLoader of a dataset that can be indexed")
        self._loader, self._model, self._turn = trainloader, model, Turn(msg, context, clock)
        plan = self._turn.order.assignment.plan
        self.prox_mu, self.step_scale = plan.prox_mu, plan.step_scale
        self.report, self.reply = self._turn.report, self._turn.reply
        self._turn.examples = length_hint(trainloader.sampler) or length_hint(trainloader.dataset)
        self._drawn: list[Sequence[int]] = []  # by the loader in its last epoch, batch by batch
        self._way = self._follow(plan.phases)

    def __iter__(self) -> Iterator[Any]:
        """What is left of the order."""
        return self._way

    def _follow(self, phases: Sequence[Phase]) -> Iterator[Any]:
        watching: Watching | None = None
        for number, phase in enumerate(phases):
            # A forward pass of our own would need the user's way of calling the model.
            if self._turn.said.cut_short or phase.forward_price is not None:
                continue
            if phase.coreset is not None:
                yield from self._steps(self._choose(number, phase, watching), [], None)
                continue
            following = phases[number + 1].coreset if number + 1 < len(phases) else None
            for _ in range(phase.epochs):
                watching = Watching(self._model, following.proxy) if following else None
                with watching.watch() if watching else nullcontext():
                    self._drawn = []
                    yield from self._steps(self._loader.batch_sampler, self._drawn, watching)
        self._turn.over()

    def _steps(
        self, batches: Any, drawn: list[Sequence[int]], watching: Watching | None
    ) -> Iterator[Any]:
        """Hand out batches while there is time; a step lasts from one question to the next."""
        turn, device = self._turn, next((p.device for p in self._model.parameters()), None)
        loader = copy.copy(self._loader)
        # The same workers and collate function for other batches; plain assignment is refused.
        loader.__dict__.update(batch_sampler=_Drawn(batches, drawn), _iterator=None)
        ready, step, steps = iter(loader), 0, length_hint(batches, -1)
        while step != steps and not turn.said.cut_short and turn.go_on():
            began = turn.clock.steady()
            try:
                batch = next(ready)
            except StopIteration:
                return
            if watching is not None:
                watching.meet(drawn[step])
            yield batch
            if device is not None and device.type == "cuda":
                torch.cuda.synchronize(device)  # what is only queued has not been trained
            turn.stepped(len(drawn[step]), turn.clock.steady() - began)
            step += 1

    def _choose(self, number: int, phase: Phase, watching: Watching | None) -> list[list[int]]:
        """Which samples make which batch: drawn with chances δ_j / m, or all alike if δ is."""
        turn, told = self._turn, self._turn.order.assignment
        began, batches = turn.clock.steady(), self._drawn or list(self._loader.batch_sampler or ())
        own = np.unique([index for batch in batches for index in batch]).astype(np.int64)
        if not len(own):
            return []
        seen = None if watching is None else watching.seen()
        trouble = "no epoch came before" if watching is None else watching.trouble
        if phase.coreset is not None and needs_losses(phase.coreset.selector):
            trouble = "its selector goes by losses, which the user's loop keeps"
        spec = turn.late_spec(phase, len(own), trouble, grow=True)
        candidates = Candidates(Euclidean(torch.zeros(len(own), 1)))
        if seen is not None and spec.proxy != NONE and spec.budget < len(seen[0]):
            own, candidates = seen[0], Candidates(*seen[1:], seconds=turn.for_selection)
        chosen = len(candidates) > spec.budget and spec.proxy != NONE
        way = Weighting.PROPORTIONAL if chosen else Weighting.SCALED
        path = told.path("coreset")
        samples = build_samples(told, replace(spec, weighting=way), candidates, path)
        if chosen:
            turn.selection = turn.clock.steady() - began
        turn.chosen(len(samples.indices), samples.gradient_error, samples.fell_back)
        size = self._loader.batch_size or max(len(batch) for batch in batches)
        tape = phase_schedule(told, number, replace(samples, indices=own[samples.indices]), size)
        rows = zip(tape.index, tape.coefficient > 0, strict=True)
        return [row[real].tolist() for row, real in rows]


class _Drawn:
    """A batch sampler whose draws are noted before they are read, by workers perhaps."""

    def __init__(self, batches: Any, drawn: list[Sequence[int]]) -> None:
        self._batches, self._drawn = batches, drawn

    def __iter__(self) -> Iterator[Sequence[int]]:
        for batch in self._batches:
            self._drawn.append(list(batch))
            yield self._drawn[-1]
