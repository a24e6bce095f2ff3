"""Steps of a block as a CUDA graph: recorded once per number of clients, then replayed.

A small step is some hundred launches of a few microseconds each, and a launch from Python costs
more than the work it starts. A graph starts them all at once. It reads and writes fixed
addresses, so everything a step touches lies in buffers that stay: the pool of samples, the
tape with a counter that says which step it is, and the clients' parameters, of which a graph for
fewer clients takes the first rows. The number of clients is rounded up to a few values; slots
without a client have coefficients of zero and stay where they are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcore.client.executors.block import LONGEST_RUN
from fedcore.client.executors.cohort_step import CohortBatch, CohortRule, cohort_step
from fedcore.client.executors.pool import Pool
from fedcore.client.executors.steps import Tape
from fedcore.coreset.proxies import HeadGradients
from fedcore.stacked import Form
from fedcore.types import Params

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Recorded:
    """A step for some number of clients: its tape, its counter, and what replays it."""

    rows: Tensor
    coefficient: Tensor
    counter: Tensor
    replay: Callable[[], HeadGradients | None]


def rounded_up(clients: int) -> int:
    """The next number of clients that has a graph: eight per doubling, all up to 16.

    >>> [rounded_up(clients) for clients in (1, 7, 17, 33, 100)]
    [1, 7, 18, 36, 104]
    """
    step = max(1, 1 << max(0, (clients - 1).bit_length() - 4))
    return -(-clients // step) * step


class CapturedSteps:
    """Replays recorded steps; where recording is refused, takes the same steps one by one."""

    def __init__(self, form: Form, pool: Pool, learning_rate: float) -> None:
        """Bind what all blocks share."""
        self._form = form
        self._pool = pool
        self._rate = learning_rate
        self._capture = pool.device.type == "cuda"
        self._anchor: dict[str, Tensor] = {}
        self._buffers: dict[str, Tensor] = {}
        self._pull = torch.empty(0)
        self._width = 0
        self._generation = -1
        self._recorded: dict[tuple[int, int, int, bool], _Recorded] = {}
        self._memory = torch.cuda.graph_pool_handle() if self._capture else None

    def start(self, params: Params, clients: int) -> None:
        """Put ``clients`` copies of the global model into the slots."""
        self._reserve(params, rounded_up(clients))
        self._width = rounded_up(clients)
        for name, value in params.items():
            self._anchor[name].copy_(value)
            self._buffers[name].copy_(value.to(self._pool.device).expand_as(self._buffers[name]))

    def params_of(self, slot: int) -> Params:
        """One client's parameters, as views that the next step overwrites."""
        return {name: value[slot] for name, value in self._buffers.items()}

    def run(self, tape: Tape, watch: int) -> list[HeadGradients]:
        """Walk a tape; with ``watch`` (the last layer's width) what each step showed."""
        steps, clients, batch = tape.rows.shape
        self._pull.zero_()
        if tape.pull is not None:
            self._pull[:clients] = tape.pull
        recorded = self._step(batch, watch, pulled=tape.pull is not None)
        recorded.rows[:steps, :clients].copy_(tape.rows)
        recorded.coefficient[:steps, :clients].copy_(tape.coefficient)
        recorded.coefficient[:steps, clients:].zero_()
        recorded.counter.zero_()
        shown = []
        for _ in range(steps):
            seen = recorded.replay()
            if seen is not None:
                shown.append(_copied(seen, clients * batch))
        return shown

    def keep(self, slots: Sequence[int]) -> None:
        """Drop all clients but those; they move up in this order."""
        chosen = torch.tensor(slots, device=self._pool.device)
        for value in self._buffers.values():
            value[: len(slots)] = value[chosen]
        self._width = rounded_up(len(slots))

    def _reserve(self, params: Params, width: int) -> None:
        room = len(self._pull)
        if room < width or self._generation != self._pool.generation:
            self._recorded.clear()  # recordings hold addresses that are about to change
            # A pool of memory is gone with the last graph that used it.
            self._memory = torch.cuda.graph_pool_handle() if self._capture else None
            self._generation = self._pool.generation
        if room < width:
            device = self._pool.device
            self._pull = torch.zeros(width, device=device)
            self._anchor = {n: v.detach().to(device, copy=True) for n, v in params.items()}
            self._buffers = {
                n: torch.empty(width, *v.shape, dtype=v.dtype, device=device)
                for n, v in params.items()
            }

    def _step(self, batch: int, watch: int, *, pulled: bool) -> _Recorded:
        key = (self._width, batch, watch, pulled)
        if key not in self._recorded:
            self._recorded[key] = self._record(*key)
        return self._recorded[key]

    def _record(self, width: int, batch: int, watch: int, pulled: bool) -> _Recorded:
        device = self._pool.device
        rows = torch.zeros(LONGEST_RUN, width, batch, dtype=torch.int64, device=device)
        coefficient = torch.zeros(LONGEST_RUN, width, batch, device=device)
        counter = torch.zeros(1, dtype=torch.int64, device=device)
        leaves = {n: v[:width].detach().requires_grad_() for n, v in self._buffers.items()}
        rule = CohortRule(self._rate, self._pull[:width] if pulled else None, self._anchor)

        def step() -> HeadGradients | None:
            chosen = rows.index_select(0, counter)[0]
            own = coefficient.index_select(0, counter)[0]
            inputs = self._pool.x.index_select(0, chosen.flatten())
            labels = self._pool.y.index_select(0, chosen.flatten())
            x = inputs.view(width, batch, *inputs.shape[1:])
            data = CohortBatch(x, labels.view(width, batch), own)
            seen = cohort_step(self._form, leaves, data, rule, watch)
            counter.add_(1)
            return seen

        replay = self._graph_of(step, counter) if self._capture else step
        return _Recorded(rows, coefficient, counter, replay)

    def _graph_of(
        self, step: Callable[[], HeadGradients | None], counter: Tensor
    ) -> Callable[[], HeadGradients | None]:
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
                seen = step()
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            log.warning("steps are not captured as a CUDA graph, but taken one by one: %s", reason)
            self._capture = False
            return step

        def replay() -> HeadGradients | None:
            graph.replay()
            return seen

        return replay


def _copied(seen: HeadGradients, rows: int) -> HeadGradients:
    """A copy without the slots that hold no client: the next replay writes over the original."""
    return HeadGradients(
        seen.residuals[:rows].clone(), seen.inputs[:rows].clone(), seen.losses[:rows].clone()
    )
