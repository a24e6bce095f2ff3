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
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from operator import length_hint
from typing import Any

import numpy as np
import torch
from flwr.app import Context, Message
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from fedcore.client.coresets import build_samples, needs_losses
from fedcore.client.job import phase_schedule
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean, Metric
from fedcore.coreset.proxies import LAST_LAYER, NONE, STATIC, HeadGradients, space_of
from fedcore.errors import BadOption
from fedcore.flower.turn import WALL, Clock, Turn
from fedcore.types import Phase, Weighting


class on_time:  # noqa: N801, used like a function
    """All epochs of an order in one go, around a user's loader, workers and collate function.

    ``report()`` are numbers for a MetricRecord, ``reply(state_dict)`` is the whole answer;
    ``prox_mu`` and ``step_scale`` are for the loss, step_scale · L + prox_mu / 2 · ||w - w_r||².
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
        return self._way  # what is left of the order: a second iteration yields nothing

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
        loader, steps = copy.copy(self._loader), length_hint(batches, -1)

        def noted() -> Iterator[Sequence[int]]:  # before a batch is read, by workers perhaps
            for batch in batches:
                drawn.append(list(batch))
                yield drawn[-1]

        # The same workers and collate function for other batches; plain assignment is refused.
        loader.__dict__.update(batch_sampler=noted(), _iterator=None)
        ready, step = iter(loader), 0
        while step != steps and not turn.said.cut_short and turn.go_on():
            began = turn.clock.steady()
            try:
                batch = next(ready)
            except StopIteration:
                return
            if watching is not None:
                watching.met.append(drawn[step])
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


class Watching:
    """Collects r = dL/da of the last ``nn.Linear``, and its input z where the ``proxy`` asks.

    A sequence of outputs for a sample, [B, T, C], counts as the sum of its gradients. ``trouble``
    says why there is nothing to choose by.
    """

    def __init__(self, model: nn.Module, proxy: str) -> None:
        layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
        self._head = layers[-1] if layers else None
        self.trouble = None if layers else "the model has no nn.Linear"
        self._proxy, self._scale = proxy, 1.0
        self.met: list[Sequence[int]] = []  # samples of every batch that was handed out
        self._parts: dict[int, tuple[Tensor, Tensor]] = {}  # by batch

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Hang the hooks. Gradients may come scaled, and only the scaler knows by how much."""
        if self._head is None:
            yield
            return
        scaled = torch.amp.GradScaler.scale

        def scale(scaler: torch.amp.GradScaler, outputs: Any) -> Any:
            self._scale = scaler.get_scale()
            return scaled(scaler, outputs)

        with self._head.register_forward_hook(self._passed):
            torch.amp.GradScaler.scale = scale  # type: ignore[method-assign, assignment]
            try:
                yield
            finally:
                torch.amp.GradScaler.scale = scaled  # type: ignore[method-assign]

    def _passed(self, _: nn.Module, entered: tuple[Any, ...], output: Any) -> None:
        if self.met and isinstance(output, Tensor) and output.requires_grad:
            batch, z = len(self.met) - 1, entered[0].detach()
            output.register_hook(lambda g: self._note(batch, z, g))  # type: ignore[no-untyped-call]

    def _note(self, batch: int, z: Tensor, gradient: Tensor) -> None:
        """Rows of one batch, as of a sum of losses: a mean has the batch's size in it."""
        size = len(self.met[batch])
        if self.trouble is not None:
            return
        if gradient.dim() < 2 or len(gradient) != size:
            self.trouble = f"the last linear layer gave {tuple(gradient.shape)} for {size} samples"
        elif batch in self._parts:
            self.trouble = "the last linear layer ran more than once for one batch"
        else:
            wanted = z if self._proxy in (STATIC, LAST_LAYER) else z[..., :0]
            rows = gradient.detach().float() * (size / self._scale)
            self._parts[batch] = _summed(rows), _summed(wanted.float())

    def seen(self) -> tuple[NDArray[np.int64], Metric, Tensor] | None:
        """Samples with finite gradients, the space they lie in, and labels; None for ``trouble``.

        The residual of a sample's own class is the one below zero.
        """
        if self.trouble is None and not self._parts:
            self.trouble = "no gradient reached the last linear layer"
        if self.trouble is not None or self._head is None:
            return None
        met = np.concatenate([np.asarray(self.met[batch]) for batch in self._parts])
        residuals, inputs = (
            torch.cat(part).cpu() for part in zip(*self._parts.values(), strict=True)
        )
        finite = torch.isfinite(residuals).all(1) & torch.isfinite(inputs).all(1)
        _, last = np.unique(met[::-1], return_index=True)  # who came twice counts once
        keep = torch.from_numpy(len(met) - 1 - last)
        keep = keep[finite[keep]]
        rows = HeadGradients(residuals[keep], inputs[keep], residuals.new_zeros(len(keep)))
        weight, bias = self._head.weight.detach().float().cpu(), self._head.bias is not None
        if not len(keep) or not bool(torch.isfinite(weight).all()):
            self.trouble = "the last linear layer is not finite"
            return None
        space: Metric = Euclidean(rows.inputs)  # the input itself, of a model of one layer
        if self._proxy != STATIC:
            space = space_of(self._proxy, rows, weight, bias=bias)
        return met[keep.numpy()], space, rows.residuals.argmin(1)


def _summed(rows: Tensor) -> Tensor:
    """[B, ..., C] as [B, C]."""
    return rows if rows.dim() == 2 else rows.flatten(1, -2).sum(1)
