"""A grid in one process, with nodes that follow a script and a time that nobody waits for.

A node is a function (order, arrays, message) -> (seconds until its answer is there, answer), where
the answer is a RecordDict, an Error, or bytes that raise when they are pulled; None: none comes.
"""

from collections.abc import Callable, Iterable

import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.app.error import Error
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.task_identity import TaskIdentity

from fedcore.flower.wire import ORDER, Order, Report, read_order, report_metrics

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # else no Message is made


class Time:
    """Seconds that pass when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds


class InProcessGrid:
    """What ``Grid`` is to a server; only what it may use is there."""

    def __init__(self, time: Time, nodes: dict[int, Callable]) -> None:
        self.time = time
        self.nodes = nodes
        self.keys: dict[int, bytes] = {}
        self.offline: set[int] = set()
        self.failures = 0  # calls that raise from now on
        self.sent: list[tuple[int, Order | None, Message]] = []
        self.pulled = 0  # answers in all
        self.most_at_once = 0
        self._answers: dict[str, tuple[float, object]] = {}

    def get_nodes(self) -> list[NodeInfo]:
        self._may_fail()
        there = sorted(self.nodes.keys() - self.offline)
        return [NodeInfo(node_id=node, public_key=self.keys.get(node, b"")) for node in there]

    def get_node_ids(self) -> list[int]:
        return [node.node_id for node in self.get_nodes()]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        self._may_fail()
        ids = []
        for message in messages:
            key = f"message {len(self.sent)}"
            message.metadata.__dict__["_message_id"] = key
            node, content = message.metadata.dst_node_id, message.content
            text = content["config"].get(ORDER)
            order = None if text is None else read_order(text)
            self.sent.append((node, order, message))
            told = self.nodes[node](order, content["arrays"], message)
            if told is not None:
                seconds, answer = told
                ready = self.time.now + seconds
                if not isinstance(answer, bytes):
                    answer = Message(answer, reply_to=message)
                    if answer.has_error():  # which a node that died cannot have sent
                        answer.metadata.__dict__["_src_node_id"] = 1
                self._answers[key] = (ready, answer)
            ids.append(key)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        self._may_fail()
        due = [
            k for k in message_ids if k in self._answers and self._answers[k][0] <= self.time.now
        ]
        if any(isinstance(self._answers[key][1], bytes) for key in due):
            raise ValueError("these bytes are no object")
        found = [self._answers.pop(key)[1] for key in due]
        self.pulled += len(found)
        self.most_at_once = max(self.most_at_once, len(found))
        return found

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float) -> list[Message]:
        raise AssertionError("FedCore polls by itself")

    def asked(self, server_round: int) -> list[int]:
        sent = ((n, m.content["config"]["server-round"]) for n, _, m in self.sent)
        return sorted(node for node, number in sent if number == server_round)

    def _may_fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the SuperLink is away")


def answer(
    order: Order,
    arrays: dict | ArrayRecord,
    *,
    samples: int = 10,
    seconds: float = 1.0,
    metrics: dict | None = None,
    **said: object,
) -> RecordDict:
    """An honest answer to an order, but for what is ``said`` otherwise."""
    work = said.pop("work", order.assignment.plan.work(samples))
    values = {
        "ticket": order.ticket,
        "base_version": order.assignment.base_version,
        "steps": max(1, work // 5),
        "work": work,
        "training_seconds": seconds,
        "age": 0.1,
        "handler_seconds": seconds,
    }
    report = report_metrics(Report(**values), samples)
    report |= {name.replace("_", "-"): value for name, value in said.items()}
    record = arrays if isinstance(arrays, ArrayRecord) else ArrayRecord(arrays)
    own = MetricRecord({**report, **(metrics or {})})
    return RecordDict({"arrays": record, "metrics": own})


def adding(shift: float, *, samples: int = 10, seconds: float = 1.0, trip: float = 2.0, **said):
    """A node that adds a number to every parameter."""

    def node(order, arrays, message):
        if order is None:  # an evaluation
            return trip, RecordDict({"m": MetricRecord({"num-examples": samples, "acc": 0.5})})
        moved = {name: torch.from_numpy(a.numpy() + shift) for name, a in arrays.items()}
        return trip, answer(order, moved, samples=samples, seconds=seconds, **said)

    return node


def failing(code: int, trip: float = 1.0):
    """A node that answers with an error."""
    return lambda order, arrays, message: (trip, Error(code, "as told"))


def silent(order, arrays, message):
    """A node that never answers."""
