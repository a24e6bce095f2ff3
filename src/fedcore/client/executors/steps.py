"""The parameters of a block of clients, moved along tapes: step by step, or as a CUDA graph.

A small step on a GPU is some hundred launches, which cost more from Python than they compute. A
graph, recorded once per (rounded) number of clients, starts them all. It reads and writes fixed
addresses: the pool of samples, the tape with a counter, the parameters, and a row for each sample
where its loss and its gradients are noted. Slots without a client have coefficients of zero and
stay where they are.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fedcore.arrays import check_alike
from fedcore.client.step import Batch, Memory, StepRule, stacked_step
from fedcore.coreset.proxies import HeadGradients
from fedcore.stacked import Form
from fedcore.task import trained_names
from fedcore.types import Assignment, ClientData, ClientId, Params, TrainingSettings

log = logging.getLogger(__name__)

LONGEST_RUN = 256  # steps of a tape at most: bounds what lies on the device


class Pool:
    """Samples of a block's clients, in buffers that only grow; ``generation`` counts how often."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.generation = device, 0
        self.x, self.y = torch.empty(0), torch.empty(0, dtype=torch.int64)

    def fill(
        self, clients: Sequence[ClientData], ids: Sequence[ClientId] = ()
    ) -> list[tuple[slice, ClientData]]:
        """Replace the content; gives each client's rows, and its samples as views."""
        parts = [client.take(slice(None)) for client in clients]
        names = [f"client {client}" for client in ids or range(len(parts))]
        # Copying would convert types without a word, and one column into many.
        for name, (x, _) in zip(names, parts, strict=True):
            check_alike(name, x, names[0], parts[0][0])
        xs, ys = zip(*parts, strict=True)
        sizes = [len(y) for y in ys]
        self._reserve(sum(sizes), xs[0])
        for pool, own in ((self.x[: sum(sizes)], xs), (self.y[: sum(sizes)], ys)):
            # One transfer, not one for each client, from pages that are kept and a GPU reads itself
            host, here = pool, own[0].device
            if here != pool.device:
                host = torch.empty_like(pool, device=here, pin_memory=here.type == "cpu")
            pool.copy_(torch.cat(own, out=host))
        rows = [slice(sum(sizes[:n]), sum(sizes[: n + 1])) for n in range(len(sizes))]
        return [(own, ClientData(self.x[own], self.y[own])) for own in rows]

    def _reserve(self, rows: int, example: Tensor) -> None:
        same = self.x.shape[1:] == example.shape[1:] and self.x.dtype == example.dtype
        if same and len(self.x) >= rows:
            return
        room = rows + rows // 2  # a new place costs all that is recorded, so one is to last
        self.x = torch.zeros((room, *example.shape[1:]), dtype=example.dtype, device=self.device)
        self.y = torch.zeros(room, dtype=torch.int64, device=self.device)
        self.generation += 1


class Tape(NamedTuple):
    """In main memory, for K slots: rows of the pool, and those to note losses in, [steps, 2, K, B];
    coefficients [steps, K, B]. The row behind the last is of nobody.
    """

    rows: Tensor
    coefficient: Tensor


Walk = Callable[[Tape], None]


def rounded_up(clients: int) -> int:
    """The next number of clients that has a graph: eight per doubling, all up to 16.

    >>> [rounded_up(clients) for clients in (1, 7, 17, 33, 100)]
    [1, 7, 18, 36, 104]
    """
    step = max(1, 1 << max(0, (clients - 1).bit_length() - 4))
    return -(-clients // step) * step


class Steps:
    """Takes steps of all clients of a block; recorded, from buffers, as a graph where it can."""

    def __init__(self, form: Form, pool: Pool, settings: TrainingSettings, *, record: bool) -> None:
        """Bind what all blocks share; ``record`` is for GPUs, and elsewhere only costs."""
        self._form, self._pool, self._settings = form, pool, settings
        self._rate: float | Tensor = settings.learning_rate
        if record and settings.schedule is not None:  # what is recorded reads it where it lies
            self._rate = torch.zeros((), dtype=torch.float64, device=pool.device)
        self._record, self._capture = record, record and pool.device.type == "cuda"
        self._room, self.width, self._generation = 0, 0, -1  # slots: most, and at work
        self.met = torch.empty(0)  # losses that were noted, a row a sample
        self._shown: Tensor | None = None  # [r, z, L] of steps that were watched, likewise
        self._anchor: dict[str, Tensor] = {}
        self._stack: dict[str, Tensor] = {}
        self.views: list[Params] = []  # of a slot's parameters, which the next step overwrites
        self._shift: dict[str, Tensor] = {}
        self._own = torch.empty(0)  # a row a slot: s, μ, and 1 for every parameter that is trained
        self._remembered: Memory | None = None
        # Whether anybody has a scale, a pull, a shift, frozen layers
        self._kind = (False, False, False, False)
        self._recorded: dict[tuple[object, ...], Walk] = {}
        self._memory = torch.cuda.graph_pool_handle() if self._capture else None

    def start(self, params: Params, assignments: Sequence[Assignment]) -> None:
        """Put a copy of the global model, and what each client's rule has of its own, in slots."""
        shifts, own = [one.shift for one in assignments], []
        for plan in (one.plan for one in assignments):
            trained = set(trained_names(params, plan.trained_share))
            own.append([plan.step_scale, plan.prox_mu, *(name in trained for name in params)])
        scales, pulls, *kept = zip(*own, strict=True)
        given = any(one is not None for one in shifts)
        self._kind = (set(scales) != {1.0}, any(pulls), given, not all(map(all, kept)))
        self.width = rounded_up(len(assignments)) if self._record else len(assignments)
        self._reserve(params)
        if self._settings.schedule is not None:
            rate = self._settings.learning_rate_at(assignments[0].base_version)
            self._rate = self._rate.fill_(rate) if isinstance(self._rate, Tensor) else rate
        self.met.zero_()
        for name, value in params.items():
            self._anchor[name].copy_(value)
            self._stack[name][: self.width] = self._anchor[name]
        for value in () if self._remembered is None else self._remembered.tensors:
            value.zero_()
        self._own[: len(own)] = torch.tensor(own, dtype=torch.float64)
        for name, stack in self._shift.items() if self._kind[2] else ():
            stack.zero_()
            for slot, one in enumerate(shifts):
                if one is not None:
                    stack[slot].copy_(one[name])

    def copies_of(self, slots: Sequence[int], like: Params) -> list[Params]:
        """Copies of some clients' parameters, where ``like`` lies: a launch for each, for all."""
        chosen = torch.tensor(slots, dtype=torch.int64).to(self._pool.device, non_blocking=True)
        taken = {name: self._stack[name][chosen].to(v.device) for name, v in like.items()}
        return [{name: value[n] for name, value in taken.items()} for n in range(len(slots))]

    def keep(self, slots: Sequence[int]) -> None:
        """Drop all clients but those; they move up in this order."""
        chosen = torch.tensor(slots).to(self._pool.device, non_blocking=True)
        remembered = [] if self._remembered is None else self._remembered.tensors
        for value in (*self._stack.values(), *self._shift.values(), self._own, *remembered):
            value[: len(slots)] = value[chosen]
        self.width = rounded_up(len(slots)) if self._record else len(slots)

    def seen(self, rows: slice, width: int) -> HeadGradients:
        """A copy in main memory of what samples showed to a last layer of that ``width``."""
        assert self._shown is not None
        here = self._shown[rows].to("cpu", copy=True)  # in one piece: each is waited for
        return HeadGradients(here[:, :width], here[:, width:-1], here[:, -1])

    def run(self, tape: Tape, watch: int | None) -> None:
        """Walk a tape of at most ``LONGEST_RUN`` steps; ``watch`` is the last layer's width."""
        if self._record:
            kind = (self.width, tape.rows.shape[3], watch, self._kind)
            if kind not in self._recorded:
                self._recorded[kind] = self._record_walk(tape.rows.shape[3], watch)
            self._recorded[kind](tape)
            return
        step, device = self._step(watch), self._pool.device
        for rows, own in zip(tape.rows.to(device), tape.coefficient.to(device), strict=True):
            step(rows, own)

    def _reserve(self, params: Params) -> None:
        """Have room for as many slots as are asked for; what is recorded holds old addresses."""
        device, grow = self._pool.device, self._room < self.width
        self._room = room = max(self._room, self.width)
        if grow or self._generation != self._pool.generation:
            self._recorded.clear()
            # A pool of memory is gone with the last graph that used it.
            self._memory = torch.cuda.graph_pool_handle() if self._capture else None
            self._generation, self._shown = self._pool.generation, None
            self.met = next(iter(params.values())).new_zeros(len(self._pool.x) + 1, device=device)

        def stacked() -> dict[str, Tensor]:
            return {n: v.new_zeros((room, *v.shape), device=device) for n, v in params.items()}

        if grow:
            self._anchor = {n: torch.empty_like(v, device=device) for n, v in params.items()}
            self._stack, self._shift = stacked(), {}
            self.views = [{n: v[k] for n, v in self._stack.items()} for k in range(room)]
            self._remembered = Memory.blank(self._settings, self._stack)
            self._own = torch.ones(room, 2 + len(params), dtype=torch.float64, device=device)
        if self._kind[2] and not self._shift:
            self._shift = stacked()

    def _step(self, watch: int | None) -> Callable[[Tensor, Tensor], None]:
        """A step of the first clients on rows of the pool [2, K, B], with coefficients [K, B]."""
        width, (scaled, pulled, shifted, cut) = self.width, self._kind
        leaves = {n: v[:width].detach().requires_grad_() for n, v in self._stack.items()}
        scale, pull, *trained = self._own[:width].unbind(1)
        rule = StepRule(
            self._rate,
            pull if pulled else 0.0,
            self._anchor,
            scale if scaled else 1.0,
            {n: v[:width] for n, v in self._shift.items()} if shifted else None,
            None if self._remembered is None else self._remembered.until(width),
            dict(zip(leaves, trained, strict=True)) if cut else None,
        )

        def step(rows: Tensor, coefficient: Tensor) -> None:
            own, noted = rows.flatten(1)
            x, y = self._pool.x.index_select(0, own), self._pool.y.index_select(0, own)
            shape = coefficient.shape
            batch = Batch(x.view(*shape, *x.shape[1:]), y.view(shape), coefficient)
            losses, seen = stacked_step(self._form, leaves, batch, rule, watch)
            self.met.index_copy_(0, noted, losses)
            if seen is None:
                return
            joined = torch.cat([seen.residuals, seen.inputs, seen.losses[:, None]], dim=1)
            if self._shown is None:
                self._shown = joined.new_zeros(len(self.met), joined.shape[1])
            real = own.masked_fill(coefficient.flatten() == 0, len(self.met) - 1)
            self._shown.index_copy_(0, real, joined)

        return step

    def _record_walk(self, batch: int, watch: int | None) -> Walk:
        """A walk whose steps read their place on a tape from a counter."""
        device, shape = self._pool.device, (LONGEST_RUN, 2, self.width, batch)
        rows = torch.zeros(shape, dtype=torch.int64, device=device)
        rows[:, 1] = len(self.met) - 1
        coefficient = torch.zeros(LONGEST_RUN, *shape[2:], device=device)
        counter = torch.zeros(1, dtype=torch.int64, device=device)
        step = self._step(watch)

        def at_counter() -> None:
            step(rows.index_select(0, counter)[0], coefficient.index_select(0, counter)[0])
            counter.add_(1)

        replay = self._graph_of(at_counter) if self._capture else at_counter

        def walk(tape: Tape) -> None:
            steps = len(tape.rows)
            if rows.is_cuda:  # which reads such memory itself, so nobody waits for steps before
                tape = Tape(*(part.pin_memory() for part in tape))
            rows[:steps].copy_(tape.rows, non_blocking=True)
            coefficient[:steps].copy_(tape.coefficient, non_blocking=True)
            counter.zero_()
            for _ in range(steps):
                replay()

        return walk

    def _graph_of(self, step: Callable[[], None]) -> Callable[[], None]:
        """Record ``step``. Its tape is all zeros by now, so trying it out moves nothing."""
        try:
            aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                for _ in range(3):  # libraries choose and load their kernels before the recording
                    step()
            torch.cuda.current_stream().wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._memory):
                step()
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            log.warning("steps are not captured as a CUDA graph, but taken one by one: %s", reason)
            self._capture = False
            return step
        return graph.replay
