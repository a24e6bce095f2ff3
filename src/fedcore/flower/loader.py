"""A client's training: ``on_time`` around the loop that a user has, and ``fit``, the simulator's.

The first epoch yields everything while hooks look at the last layer's gradients. Then the coreset
is chosen, as large as the time that is left allows, and drawn from in proportion to its weights: so
a plain mean, momentum and Adam are right as they are. It ends before a batch that would be late.
"""

import copy
import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import length_hint
from typing import Any

import numpy as np
import torch
from flwr.app import Context, Message
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from fedcore.arrays import batches
from fedcore.bundle import joined
from fedcore.client.coresets import Choose, Watched, build_samples, needs_losses
from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.client.job import phase_schedule
from fedcore.client.schedule import Samples
from fedcore.coreset.build import PLAIN
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean, Metric
from fedcore.coreset.proxies import LAST_LAYER, NONE, STATIC, HeadGradients, space_of
from fedcore.errors import BadOption
from fedcore.flower.turn import WALL, Clock, Turn
from fedcore.flower.wire import SHIFT
from fedcore.task import Task
from fedcore.types import Assignment, ClientData, Phase, TrainingSettings, Weighting

CHUNK = 4096  # samples of a dataset at a time


class Watching:
    """Collects r = dL/da of the last ``nn.Linear``, and its input z where the ``proxy`` asks."""

    def __init__(self, model: nn.Module, proxy: str = NONE) -> None:
        layers = [None, *(module for module in model.modules() if isinstance(module, nn.Linear))]
        self._head, self._proxy, self._scale = layers[-1], proxy, 1.0
        self.trouble = "" if self._head else "the model has no nn.Linear"  # no way to choose
        self.drawn: list[Sequence[int]] = []  # samples, batch by batch
        self.out = 0  # batches that were handed out
        self._parts: dict[int, HeadGradients] = {}  # of them

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Hang the hooks. Gradients may come scaled, and only the scaler knows by how much."""
        if self._head is None or self._proxy == NONE:
            yield
            return
        scaled = torch.amp.GradScaler.scale

        def scale(scaler: torch.amp.GradScaler, outputs: Any) -> Any:
            self._scale = scaler.get_scale()
            return scaled(scaler, outputs)

        with self._head.register_forward_hook(self._passed, with_kwargs=True):
            torch.amp.GradScaler.scale = scale  # type: ignore[method-assign, assignment]
            try:
                yield
            finally:
                torch.amp.GradScaler.scale = scaled  # type: ignore[method-assign]

    def _passed(self, _: nn.Module, entered: Any, named: Any, output: Any) -> None:
        if self.out and isinstance(output, Tensor) and output.requires_grad:
            batch, z = self.out - 1, (entered or [*named.values()])[0].detach()
            output.register_hook(lambda g: self._note(batch, z, g))  # type: ignore[no-untyped-call]

    def _note(self, batch: int, z: Tensor, gradient: Tensor) -> None:
        """Rows of one batch, as of a sum of losses: a mean has the batch's size in it."""
        size = len(self.drawn[batch])
        if self.trouble:
            return
        if gradient.dim() < 2 or len(gradient) != size:
            self.trouble = f"the last linear layer gave {tuple(gradient.shape)} for {size} samples"
        elif batch in self._parts:
            self.trouble = "the last linear layer ran more than once for one batch"
        else:
            wanted = z if self._proxy in (STATIC, LAST_LAYER) else z[..., :0]
            rows = gradient.detach().float() * (size / self._scale)
            both = rows, wanted.float()  # of several positions of a sample, their sum
            rows, wanted = (v if v.dim() == 2 else v.flatten(1, -2).sum(1) for v in both)
            self._parts[batch] = HeadGradients(rows, wanted, rows.new_zeros(size))

    def seen(self) -> tuple[NDArray[Any], Metric, Tensor] | None:
        """Samples with finite gradients, the space they lie in, and labels; None: ``trouble``."""
        if not self.trouble and not self._parts:
            self.trouble = "no gradient reached the last linear layer"
        if self.trouble or self._head is None:
            return None
        met = np.fromiter((key for batch in self._parts for key in self.drawn[batch]), object)
        rows = HeadGradients.gather([*self._parts.values()])
        finite = torch.isfinite(torch.cat([rows.residuals, rows.inputs], dim=1)).all(1)
        _, last = np.unique(met[::-1], return_index=True)  # who came twice counts once
        keep = torch.from_numpy(len(met) - 1 - last)
        keep = keep[finite.cpu()[keep]]
        weight, bias = self._head.weight.detach().float().cpu(), self._head.bias is not None
        if not len(keep) or not bool(torch.isfinite(weight).all()):
            self.trouble = "the last linear layer is not finite"
            return None
        rows = HeadGradients(*(part.cpu()[keep] for part in rows))
        space: Metric = Euclidean(rows.inputs)  # the input itself, of a model of one layer
        if self._proxy != STATIC:
            space = space_of(self._proxy, rows, weight, bias=bias)
        return met[keep.numpy()], space, rows.residuals.argmin(1)  # below 0 for its own class


class on_time(Turn):  # noqa: N801, used like a function
    """All epochs of an order in one go, around a user's loader, workers and collate function.

    ``report()`` are numbers for a MetricRecord, ``reply(state_dict)`` is the whole answer;
    ``prox_mu`` and ``step_scale`` are for the loss, step_scale · L + prox_mu / 2 · ||w - w_r||².
    All else, its length included, is the loader's: a loop may ask for its ``dataset``.
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
        if SHIFT in msg.content.array_records:
            raise BadOption("on_time cannot shift gradients, as this strategy asks; use fit")
        super().__init__(msg, context, clock)
        self._loader, self._model, plan = trainloader, model, self.order.assignment.plan
        self.prox_mu, self.step_scale = plan.prox_mu, plan.step_scale
        self.examples = length_hint(trainloader.sampler) or length_hint(trainloader.dataset)
        self._way = self._follow(plan.phases)

    def report(self) -> dict[str, int | float]:
        """The report; a loop that was left takes its hooks with it."""
        self._way.close()
        return super().report()

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__.get("_loader"), name)

    def __iter__(self) -> Iterator[Any]:
        return self._way  # what is left of the order: a second iteration yields nothing

    def _follow(self, phases: Sequence[Phase]) -> Generator[Any]:
        watching = Watching(self._model)
        for number, phase in enumerate(phases):
            # A forward pass of our own would need the user's way of calling the model.
            if self.said.cut_short or phase.forward_price is not None:
                continue
            if phase.coreset is not None:
                yield from self._steps(self._choose(number, phase, watching), Watching(self._model))
                continue
            specs = [after.coreset.proxy for after in phases[number + 1 :][:1] if after.coreset]
            for _ in range(phase.epochs):
                watching = Watching(self._model, *specs)
                with watching.watch():
                    yield from self._steps(self._loader.batch_sampler, watching)
                # A sampler may draw some twice.
                self.examples = max(self.examples, sum(map(len, watching.drawn)))
        self.over()

    def _steps(self, batches: Any, watching: Watching) -> Iterator[Any]:
        """Hand out batches while there is time; a step lasts from one question to the next."""
        device = next((p.device for p in self._model.parameters()), None)
        loader, steps, drawn = copy.copy(self._loader), length_hint(batches, -1), watching.drawn

        def noted() -> Iterator[Sequence[int]]:  # before a batch is read, by workers perhaps
            for batch in batches:
                drawn.append(list(batch))
                yield drawn[-1]

        # The same workers and collate function for other batches; plain assignment is refused.
        loader.__dict__.update(batch_sampler=noted(), _iterator=None, in_order=True)
        ready: Iterator[Any] = iter(loader) if self.go_on() else iter(())  # no workers when late
        while watching.out != steps and not self.said.cut_short and self.go_on():
            try:
                batch = next(ready)
            except StopIteration:  # batches without a length
                return
            self.under_way = len(drawn[watching.out])
            watching.out += 1
            yield batch
            if device is not None and device.type == "cuda":
                torch.cuda.synchronize(device)  # what is only queued has not been trained
        self.note()

    def _choose(self, number: int, phase: Phase, watching: Watching) -> list[list[int]]:
        """Which samples make which batch: drawn with chances δ_j / m, or all alike if δ is."""
        told, began = self.order.assignment, self.clock.steady()
        batches = watching.drawn or list(self.batch_sampler)
        # Who was met twice is twice as likely: the user's sampler may balance classes.
        own = np.fromiter((key for batch in batches for key in batch), object)
        if not len(own):
            return []
        seen, trouble = watching.seen(), watching.trouble
        if phase.coreset is not None and needs_losses(phase.coreset.selector):
            trouble = "its selector goes by losses, which the user's loop keeps"
        late = self.late_spec(phase, len(own), True, trouble)
        spec = replace(late, selector=PLAIN, proxy=NONE, weighting=Weighting.SCALED)
        candidates = Candidates(Euclidean(torch.zeros(len(own), 1)))
        if by_gradients := seen and late.proxy != NONE and late.budget < len(seen[0]):
            own, candidates = seen[0], Candidates(*seen[1:], seconds=self.for_selection)
            spec = replace(late, weighting=Weighting.PROPORTIONAL)
        samples = build_samples(told, spec, candidates, told.path("coreset"))
        if by_gradients:
            self.selection = self.clock.steady() - began
        self.chosen(len(samples.indices), samples.gradient_error, samples.fell_back)
        size = self._loader.batch_size or max(map(len, batches))
        tape = phase_schedule(told, number, replace(samples, indices=own[samples.indices]), size)
        rows = [row[on].tolist() for row, on in zip(tape.index, tape.coefficient > 0, strict=True)]
        # BatchNorm takes no single sample, nor need the loop; with drop_last none but full batches.
        least = min(size if self._loader.drop_last else 2, *map(len, batches))
        return [row for row in rows if len(row) >= least] or rows


def fit(
    model: nn.Module,
    data: Any,
    msg: Message,
    context: Context,
    *,
    learning_rate: float,
    batch_size: int,
    clock: Clock | None = WALL,
) -> Message:
    """Train on ``data``, a pair (inputs, labels), a dataset or a ``ClientData``; gives the answer.

    It is the simulator's to the last bit, as long as there is time. Where there is not, the coreset
    shrinks, and no step is begun that would be late; without a ``clock`` there always is.
    """
    turn = Turn(msg, context, clock or WALL)
    sent = {name: one.to_torch_state_dict() for name, one in msg.content.array_records.items()}
    told = replace(turn.order.assignment, shift=sent.pop(SHIFT, None))
    for own in sent.values():
        model.load_state_dict(own)
    task = Task(model)
    params = task.initial_params()
    if not isinstance(data, ClientData):
        data = ClientData(*joined(batches(data, CHUNK, next(iter(params.values())).dtype)))
    settings = TrainingSettings(learning_rate, batch_size)
    executor = SequentialExecutor(task, {told.client_id: data}, settings)
    begin, turn.examples = executor._coresets.begin, len(data)
    turn.end = turn.end if clock else math.inf

    def late(assignment: Assignment, phase: int, watched: Watched | None = None) -> Choose:
        """Begin to choose when it is due, which is when the speed is known."""
        phases = list(assignment.plan.phases)
        if phases[phase].coreset is None or clock is None:
            return begin(assignment, phase, watched)

        def choose() -> Samples:
            spec, began = turn.late_spec(phases[phase], len(data), False), turn.clock.steady()
            phases[phase] = replace(phases[phase], coreset=spec)
            plan = replace(assignment.plan, phases=tuple(phases))
            samples = begin(replace(assignment, plan=plan), phase, watched)()
            if spec.proxy != NONE:
                turn.selection = turn.clock.steady() - began
            return samples

        return choose

    executor.may_step, executor._coresets.begin = turn.go_on, late  # type: ignore[method-assign]
    (update,) = executor.run(params, [told])
    model.load_state_dict(update.params, strict=False)
    turn.said.loss_sum, turn.said.loss_square_sum = update.loss_sum, update.loss_square_sum
    turn.said.loss_count = update.loss_count if update.loss_sum else 0  # cut before they were noted
    turn.chosen(update.coreset_size or 0, update.gradient_error, update.fell_back)
    return turn.reply(model.state_dict())
