"""``deadline_mod``: a handler that hangs must not leave a deaf node, and reports are completed.

``ClientApp(mods=[deadline_mod])``. When its order's time is over, the handler gets an alarm and the
server an error in the same round. A handler that does not hear that, in foreign code say, is ended
with its process. Messages without an order, such as evaluations, just pass.
"""

from __future__ import annotations

import faulthandler
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flwr.app import Context, Error, Message

from fedcore.flower.turn import WALL, order_of, seconds_for
from fedcore.flower.wire import EXAMPLES, BadMessage, Report, report_metrics

CLIENT_RAISED = 2  # Flower's code for a handler that failed
ALARM, EXIT = (1.02, 1.0), (1.25, 2.0)  # times the seconds that an order leaves, and seconds more
LEAST = 0.25  # of the deadline: who comes too late says so, and reads its data before that


class Overdue(BaseException):
    """Time is over; no ``Exception``, for a training loop may catch those."""


def deadline_mod(
    msg: Message, context: Context, call_next: Callable[[Message, Context], Message]
) -> Message:
    """End the handler if it does not end by itself; say how long it took."""
    try:
        order = order_of(msg)
    except BadMessage:
        return call_next(msg, context)
    age, began = WALL.wall() - msg.metadata.created_at, WALL.steady()
    seconds = max(seconds_for(order, age), LEAST * order.deadline)
    try:
        with _watched(seconds):
            reply = call_next(msg, context)
    except Overdue:
        reason = f"the handler went on after the {seconds:.1f} s that its order left"
        return Message(Error(CLIENT_RAISED, reason), reply_to=msg)
    finally:
        faulthandler.cancel_dump_traceback_later()
    records = list(reply.content.metric_records.values()) if reply.has_content() else []
    if len(records) == 1:
        metrics: Any = records[0]
        told, took = order.assignment, WALL.steady() - began
        examples = int(metrics.get(EXAMPLES, 0))
        # Whose own code says nothing of its work is believed to have done what it was told.
        work = told.plan.work(examples)
        guess = Report(order.ticket, told.base_version, min(1, work), work, took, age, took)
        for name, value in report_metrics(guess, examples).items():
            metrics.setdefault(name, value)
        metrics["age"], metrics["handler-seconds"] = age, took
    return reply


@contextmanager
def _watched(seconds: float) -> Iterator[None]:
    """Raise ``Overdue`` after so long in here; a while later end the process, by a C thread."""
    faulthandler.dump_traceback_later(EXIT[0] * seconds + EXIT[1], exit=True, file=2)
    if threading.current_thread() is not threading.main_thread():
        yield  # no other thread can be reached by a signal
        return
    before = signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, ALARM[0] * seconds + ALARM[1])
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _ring(*_: object) -> None:
    raise Overdue
