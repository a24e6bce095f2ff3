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
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from operator import length_hint
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from fedcore.client.job import phase_schedule
from fedcore.client.schedule import Samples
from fedcore.coreset.build import PLAIN, build_coreset
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.proxies import NONE
from fedcore.errors import BadOption, FedCoreError
from fedcore.flower.turn import WALL, Clock, Turn
from fedcore.flower.watching import Watching
from fedcore.seeding import stream
from fedcore.types import Coreset, CoresetSpec, Phase, Weighting

log = logging.getLogger(__name__)


class on_time:  # noqa: N801, used like a function
    """All epochs of an order in one go: iterate over it once; a second time yields nothing."""

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
            kind = type(trainloader).__name__
            raise BadOption(
                f"trainloader must be a DataLoader over a dataset, got a {kind} of none"
            )
        self._loader, self._model, self._turn = trainloader, model, Turn(msg, context, clock)
        plan = self._turn.order.assignment.plan
        self.prox_mu, self.step_scale = plan.prox_mu, plan.step_scale
        self._drawn: list[Sequence[int]] = []  # by the loader in its last epoch, batch by batch
        self._way = iter(self._follow(plan.phases))

    def __iter__(self) -> Iterator[Any]:
        """What is left of the order."""
        return self._way

    def report(self) -> dict[str, int | float]:
        """Numbers for a ``MetricRecord``: what was done and how long it took, nothing else."""
        examples = length_hint(self._loader.sampler) or length_hint(self._loader.dataset)
        return self._turn.report(examples)

    def reply(self, arrays: ArrayRecord | Mapping[str, Tensor]) -> Message:
        """The answer with these parameters, as a record or a ``state_dict``."""
        examples = length_hint(self._loader.sampler) or length_hint(self._loader.dataset)
        return self._turn.reply(arrays, examples)

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
        turn, began = self._turn, self._turn.clock.steady()
        met = [np.asarray(list(batch)) for batch in self._drawn or self._loader.batch_sampler or ()]
        own = np.unique(np.concatenate([np.zeros(0, np.int64), *met]))
        seen = None if watching is None else watching.seen()
        trouble = "no epoch came before" if watching is None else watching.trouble
        spec = turn.late_spec(phase, len(own), trouble, grow=True)
        candidates = Candidates(Euclidean(torch.zeros(len(own), 1)))
        if seen is not None and spec.proxy != NONE and spec.budget < len(seen[0]):
            own, candidates = seen[0], Candidates(*seen[1:], seconds=turn.for_selection)
        coreset = self._built(candidates, spec)
        if spec.proxy != NONE:
            turn.selection = turn.clock.steady() - began
        # Without replacement everybody has a turn, which equal weights allow.
        alike = bool((coreset.weights == coreset.weights[0]).all())
        weighting = Weighting.SCALED if alike else Weighting.PROPORTIONAL
        samples = Samples(own[coreset.indices.numpy()], coreset.weights.numpy(), weighting)
        size = self._loader.batch_size or max(len(batch) for batch in met)
        tape = phase_schedule(turn.order.assignment, number, samples, size)
        rows = zip(tape.index, tape.coefficient > 0, strict=True)
        return [row[real].tolist() for row, real in rows]

    def _built(self, candidates: Candidates, spec: CoresetSpec) -> Coreset:
        told, budget = self._turn.order.assignment, spec.budget
        draws = stream(told.seed, *told.path("coreset"))
        try:
            coreset = build_coreset(candidates, budget, spec.selector, draws, spec.options)
        except FedCoreError as error:  # such as a selector that goes by losses, which are not ours
            log.warning("%d of %d samples are drawn plainly: %s", budget, len(candidates), error)
            coreset = replace(build_coreset(candidates, budget, PLAIN, draws), fell_back=True)
        self._turn.say(coreset_size=len(coreset.indices))
        if coreset.fell_back:
            self._turn.say(fell_back=1)
        if coreset.gradient_error is not None and spec.proxy != NONE:
            self._turn.say(gradient_error=coreset.gradient_error)
        return coreset


class _Drawn:
    """A batch sampler whose draws are noted before they are read, by workers perhaps."""

    def __init__(self, batches: Any, drawn: list[Sequence[int]]) -> None:
        self._batches, self._drawn = batches, drawn

    def __iter__(self) -> Iterator[Sequence[int]]:
        for batch in self._batches:
            self._drawn.append(list(batch))
            yield self._drawn[-1]
