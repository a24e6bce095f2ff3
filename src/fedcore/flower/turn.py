"""A client's turn: one order, the time that is left of it, and what is said of it afterwards.

    seconds left = 0.98 (τ - age - back) - what passed since,   age = own clock - the order's time

``back`` is learned from (trip - age - handler), so a clock that is wrong by a constant cancels.
"""

import faulthandler
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from torch import Tensor

from fedcore import compression
from fedcore.coreset.build import PLAIN
from fedcore.coreset.proxies import NONE
from fedcore.flower import wire
from fedcore.flower.warm import is_warm
from fedcore.types import CoresetSpec, Phase

log = logging.getLogger(__name__)
LEAST_SELECTION, SELECTION_MARGIN = 1.5, 1.2  # seconds; times the last one's
ENOUGH_STEPS, LEAST_AFTER = 6, 1.0
STATE = "fedcore"  # what a node remembers from order to order
CLIENT_RAISED = 2  # Flower's code for a handler that failed
ALARM, EXIT = (1.02, 1.0), (1.25, 2.0)  # times the seconds that an order leaves, and seconds more
LONGEST = 2.0**22  # seconds that an alarm waits; timers know no more
LEAST, FIRST = 0.25, 2.0  # deadlines: to read data and say one is late; to learn of a long batch


class Clock(NamedTuple):
    """The time of day, to compare with a server's, and one that never jumps."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic


WALL = Clock()


def order_of(msg: Message, clock: Clock = WALL) -> tuple[wire.Order, float]:
    """The order that a message brings, and its age."""
    for record in msg.content.config_records.values():
        if wire.ORDER in record:
            order = wire.read_order(record[wire.ORDER])
            return order, 0.0 if order.virtual else clock.wall() - msg.metadata.created_at
    raise wire.BadMessage("the message brings no order: the server's strategy is not FedCore's")


def seconds_for(order: wire.Order, age: float) -> float:
    """τ - age - back; at first contact a clock's error is in ``age`` alone, and is cut off."""
    overhead = age + order.back
    if overhead < 0:  # answered before it was made: what is plausible is the way back alone
        overhead = max(0.0, min(order.back, -overhead))
    return order.deadline - overhead


class Turn:
    """Follows one order on the clock; ``said`` is its report so far."""

    def __init__(self, msg: Message, context: Context, clock: Clock = WALL) -> None:
        self._msg, self._context, self.clock, self._began = msg, context, clock, clock.steady()
        self.order, age = order_of(msg, clock)
        self.said = wire.Report(self.order.ticket, self.order.assignment.base_version, age=age)
        kept: Mapping[str, Any] = context.state.config_records.get(STATE, {})  # of earlier turns
        self.selection, self._after = (float(kept.get(k, 0.0)) for k in ("selection", "after"))
        self.for_selection = max(LEAST_SELECTION, SELECTION_MARGIN * self.selection)  # seconds
        self.end = self._began + wire.SAFE * seconds_for(self.order, age) - self._after
        self._first = (0, 0.0)  # samples and seconds of the first step, which is like no other
        self._longest, self._asked = 0.0, math.inf
        self.under_way = 0  # samples of the step that lasts until the next question
        self.examples = 0  # that this node holds

    def go_on(self, samples: int = 0) -> bool:
        """Whether a step, of ``samples``, can be taken: none should outlast the longest so far."""
        self.note()
        # The first, in which libraries and devices wake up, counts until there are enough others.
        first = self._first[1] if self.said.steps < ENOUGH_STEPS else 0.0
        self.said.cut_short = int(self._asked + max(first, self._longest) > self.end)
        self.under_way = 0 if self.said.cut_short else samples
        return not self.said.cut_short

    def note(self, most: float = math.inf) -> None:
        """The step that was under way, if there was one, is over, after ``most`` seconds."""
        now, samples = min(self.clock.steady(), self._asked + most), self.under_way
        seconds, self._asked, self.under_way = now - self._asked, now, 0
        if not samples:
            return
        if self.said.steps:
            self._longest = max(self._longest, seconds)
        else:
            self._first = samples, seconds
        self.said.steps += 1
        self.said.work += samples
        self.said.training_seconds += seconds

    def chosen(self, size: int, error: float | None, fell_back: bool) -> None:
        """Note a coreset."""
        self.said.coreset_size, self.said.gradient_error = size, -1.0 if error is None else error
        self.said.fell_back = max(self.said.fell_back, int(fell_back))

    def late_spec(self, phase: Phase, size: int, grow: bool, trouble: str = "") -> CoresetSpec:
        """What coreset of ``size`` samples to choose now that the first epoch shows one's speed.

        b = floor(seconds left after the choice / (epochs · seconds a sample)), at most the server's
        b unless it may ``grow``. Where there is ``trouble``, a plain draw that needs no choice.
        """
        self.note()
        spec = phase.coreset
        assert spec is not None
        most = size if grow and self.said.work else min(spec.budget, size)
        plain = max(1, min(most, self._affordable(phase.epochs, 0.0)))
        if spec.proxy == NONE or plain == size:
            return replace(spec, budget=plain)
        chosen = min(most, self._affordable(phase.epochs, self.for_selection))
        if not trouble and not chosen:
            trouble = "too little time is left to choose"
        if not trouble and not is_warm(spec.selector):
            trouble = "the solver is not compiled yet, see python -m fedcore.flower.warm"
        if not trouble:
            return replace(spec, budget=chosen)
        log.warning("%d of %d samples are drawn plainly: %s", plain, size, trouble)
        self.said.fell_back = 1
        return replace(spec, budget=plain, selector=PLAIN, proxy=NONE)

    def _affordable(self, epochs: int, reserved: float) -> int:
        left = self.end - self.clock.steady() - reserved
        work, seconds = self.said.work, self.said.training_seconds
        if self.said.steps > 1:
            work, seconds = work - self._first[0], seconds - self._first[1]
        # Without a step behind us, nothing is known but whether there is time at all.
        total = left * work / seconds if seconds > 0 else math.copysign(2**53, left)
        return max(0, math.floor(total / epochs))

    def over(self, after: float | None = None) -> None:
        """Training is over; what comes ``after`` it, an evaluation say, gets time next turn."""
        # None, not known yet: should the alarm ring before the report, the next turn ends earlier.
        spent = max(LEAST_AFTER, 2 * self._after) if after is None else after
        self._context.state[STATE] = ConfigRecord({"selection": self.selection, "after": spent})

    def report(self) -> dict[str, int | float]:
        """Numbers of a MetricRecord: what the server learns from; no sample, label or index."""
        if self.under_way:  # the loop was left, and what came then was no training
            self.note(self._longest or self._first[1] or math.inf)
        now = self.clock.steady()
        self.over(max(0.0, now - self._asked))
        self.said.handler_seconds = now - self._began
        return wire.report_metrics(self.said, self.examples)

    def reply(self, arrays: Mapping[str, Tensor]) -> Message:
        """The answer: one record of arrays, one of numbers."""
        if how := compression.read("compress", self.order.compress):
            sent = self._msg.content.array_records.items()
            base = next(one.to_torch_state_dict() for name, one in sent if name != wire.SHIFT)
            arrays = {name: value.detach().cpu() for name, value in arrays.items()}
            arrays = wire.pack_model(how, arrays, base, self._context.state)
        metrics = MetricRecord(self.report())  # type: ignore[arg-type]
        content = RecordDict({"arrays": ArrayRecord(dict(arrays)), "metrics": metrics})
        return Message(content, reply_to=self._msg)


class Overdue(BaseException):
    """Time is over; no ``Exception``, for a training loop may catch those."""


def deadline_mod(
    msg: Message, context: Context, call_next: Callable[[Message, Context], Message]
) -> Message:
    """Complete the report; end a handler that does not end by itself: ``ClientApp(mods=[...])``.

    When the time of its order is over (two deadlines in its first turn), or of its message, it gets
    an alarm, and the server an error. One that does not hear that, as on Windows or off the main
    thread, is ended with its process. Of what it raises the server gets the kind, without words.
    """
    try:
        order, age = order_of(msg)
        least = LEAST if STATE in context.state else FIRST
        allowed = max(seconds_for(order, age), least * order.deadline)
    except wire.BadMessage:  # an evaluation, or of another strategy
        order, allowed = None, msg.metadata.ttl

    def ring(*_: object) -> None:
        raise Overdue

    began, seconds = WALL.steady(), min(allowed, LONGEST)
    faulthandler.dump_traceback_later(EXIT[0] * seconds + EXIT[1], exit=True, file=2)
    with ExitStack() as undo:
        undo.callback(faulthandler.cancel_dump_traceback_later)
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGALRM"):
            undo.callback(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, ring))
            undo.callback(signal.setitimer, signal.ITIMER_REAL, 0.0)
            signal.setitimer(signal.ITIMER_REAL, ALARM[0] * seconds + ALARM[1])
        try:
            reply = call_next(msg, context)
        except Overdue:
            reason = f"the handler went on after the {seconds:.1f} s that its order left"
            return Message(Error(CLIENT_RAISED, reason), reply_to=msg)
        except Exception as error:  # whose words may hold data, which stay here
            log.exception("the handler raised")
            reason = f"the handler raised {type(error).__name__}; the node's log has the words"
            return Message(Error(CLIENT_RAISED, reason), reply_to=msg)
    records: list[Any] = [*reply.content.metric_records.values()] if reply.has_content() else []
    if order is not None and len(records) == 1:
        (metrics,), told, took = records, order.assignment, WALL.steady() - began
        examples = said if isinstance(said := metrics.get(wire.EXAMPLES), int) else 0
        # Whose own code says nothing of its work is believed to have done what it was told.
        work = told.plan.work(examples)
        guess = wire.Report(order.ticket, told.base_version, min(1, work), work, took)
        known = wire.report_metrics(guess, examples) | dict(metrics)
        metrics.update(known | {"age": age, "handler-seconds": took})
    return reply
