"""What tests of the client share: orders as messages, contexts, a clock that stands still."""

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, Metadata, RecordDict

from fedcore.flower.turn import Clock
from fedcore.flower.wire import ORDER, Order, order_text
from fedcore.types import Assignment, CoresetSpec, LocalPlan, Phase, Way

NOON = 1_700_000_000.0


class FakeTime:
    """Seconds pass when they are told to."""

    def __init__(self):
        self.now = 0.0
        self.skew = 0.0

    def clock(self):
        return Clock(wall=lambda: NOON + self.skew + self.now, steady=lambda: self.now)


def order_for(plan, *, deadline=1000.0, back=0.0, client=3, version=5, seed=9, ticket=12):
    return Order(Assignment(client, plan, version, seed), deadline, back, ticket)


def message(order, arrays=None):
    records = {"config": ConfigRecord({ORDER: order_text(order)})} if order else {}
    if arrays is not None:
        records["arrays"] = ArrayRecord(dict(arrays))
    metadata = Metadata(
        run_id=1,
        message_id="m",
        src_node_id=1,
        dst_node_id=7,
        reply_to_message_id="",
        group_id="",
        created_at=NOON,
        ttl=3600.0 * 24 * 365 * 100,
        message_type="train",
    )
    return Message(content=RecordDict(records), metadata=metadata)


def context():
    return Context(run_id=1, node_id=7, node_config={}, state=RecordDict(), run_config={})


def coreset_plan(budget, epochs=3, selector="kmedoids", proxy="last-layer-input"):
    return LocalPlan((Phase(1), Phase(epochs, CoresetSpec(budget, selector, proxy))), Way.CORESET)
