"""The mod: a handler that hangs becomes an error in the same round, or ends with its process."""

import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from tests.flower.client_side import context, coreset_plan, message, order_for

from fedcore.flower import deadline_mod, on_time, turn
from fedcore.flower.wire import Report, read_report, report_metrics


@pytest.fixture(autouse=True)
def exits(monkeypatch):
    """How long processes were given; the tests' own is not to end."""
    given = []
    monkeypatch.setattr(
        turn.faulthandler, "dump_traceback_later", lambda s, **_: given.append(s), raising=True
    )
    monkeypatch.setattr(
        turn.faulthandler, "cancel_dump_traceback_later", lambda: given.append(None), raising=True
    )
    return given


def fresh(**order):
    """An order of just now."""
    msg = message(order_for(coreset_plan(5), **order))
    msg.metadata.__dict__["_created_at"] = time.time()
    return msg


def trained():
    """The context of a node that has had a turn before."""
    own = context()
    own.state[turn.STATE] = ConfigRecord({"selection": 0.0, "after": 0.0})
    return own


def answers(metrics):
    def handler(msg, _):
        content = RecordDict({"arrays": ArrayRecord(), "metrics": MetricRecord(metrics)})
        return Message(content, reply_to=msg)

    return handler


def test_a_handler_that_hangs_becomes_an_error_and_leaves_no_alarm_behind(exits):
    def hangs(_msg, _context):
        while True:
            try:
                sum(range(1000))
            except Exception:  # as a training loop may
                continue

    before = signal.getsignal(signal.SIGALRM)
    reply = deadline_mod(fresh(deadline=0.3, back=0.1), trained(), hangs)
    assert reply.has_error()
    assert reply.error.code == 2
    assert "0.2 s" in reply.error.reason
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert exits[0] == pytest.approx(1.25 * 0.2 + 2.0, abs=0.05)
    assert exits[-1] is None  # taken back


def test_the_words_of_an_error_stay_on_the_node(exits, caplog):
    def fails(_msg, _context):
        raise ValueError("broken: label 41.5 of sample 7")

    reply = deadline_mod(fresh(deadline=10.0), context(), fails)
    assert "broken" in caplog.text
    assert reply.error.code == 2
    assert reply.error.reason == "the handler raised ValueError; the node's log has the words"
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert exits[-1] is None


def test_off_the_main_thread_only_the_exit_is_set(exits):
    found = []
    handler = answers({"num-examples": 80})
    thread = threading.Thread(
        target=lambda: found.append(deadline_mod(fresh(deadline=10.0), trained(), handler))
    )
    thread.start()
    thread.join()
    assert found[0].has_content()
    assert exits[0] == pytest.approx(1.25 * 10 + 2, abs=0.5)
    assert exits[-1] is None


def test_where_there_is_no_alarm_only_the_exit_is_set(exits, monkeypatch):
    """As on Windows."""
    for name in ("SIGALRM", "setitimer", "ITIMER_REAL"):
        monkeypatch.delattr(signal, name)
    assert deadline_mod(fresh(deadline=10.0), trained(), answers({})).has_content()
    assert exits == [pytest.approx(1.25 * 10 + 2, abs=0.5), None]


def test_the_report_of_a_handler_is_kept_but_for_its_time():
    report = Report(12, 5, 40, 320, training_seconds=0.0, age=99.0, handler_seconds=99.0)
    handler = answers({**report_metrics(report, 80), "train-loss": 0.5})
    reply = deadline_mod(fresh(deadline=10.0), context(), handler)
    metrics = dict(reply.content.metric_records["metrics"])
    assert metrics.pop("train-loss") == 0.5
    found, examples = read_report(metrics)
    assert (found.steps, found.work, examples) == (40, 320, 80)
    assert 0 <= found.age < 1
    assert 0 <= found.handler_seconds < 1


def test_a_handler_without_a_report_gets_one():
    reply = deadline_mod(fresh(deadline=10.0), context(), answers({"num-examples": 80}))
    found, examples = read_report(reply.content.metric_records["metrics"])
    assert (found.ticket, found.base_version, examples) == (12, 5, 80)
    assert found.work == 80 + 3 * 5  # what it was told
    assert found.training_seconds == found.handler_seconds


def test_messages_without_an_order_pass_and_have_the_time_that_they_live(exits):
    sent = message(None)
    sent.metadata.ttl = 30.0
    reply = deadline_mod(sent, context(), answers({"loss": 1.0}))
    assert dict(reply.content.metric_records["metrics"]) == {"loss": 1.0}
    assert exits == [1.25 * 30 + 2, None]


@pytest.mark.parametrize("examples", [[1, 2], float("nan"), 1.5])
def test_odd_numbers_of_examples_are_none(examples):
    reply = deadline_mod(fresh(deadline=1e12), context(), answers({"num-examples": examples}))
    assert reply.has_content()


def test_who_comes_too_late_has_time_to_say_so(exits):
    """An order of long ago: a quarter of the deadline, for the data are read before that."""
    deadline_mod(message(order_for(coreset_plan(5), deadline=8.0)), trained(), answers({}))
    assert exits[0] == 1.25 * 2.0 + 2.0


def test_a_batch_that_takes_longer_than_the_deadline_is_answered_late_the_first_time(exits):
    """Ended at the deadline in every round, a node would never be known to be so slow."""
    own, loader = context(), DataLoader(TensorDataset(torch.zeros(4, 1)), 2)
    deadline_mod(fresh(deadline=8.0), own, answers({}))
    on_time(loader, torch.nn.Linear(1, 2), fresh(deadline=8.0), own).report()
    deadline_mod(fresh(deadline=8.0), own, answers({}))
    assert exits[::2] == pytest.approx([1.25 * 16 + 2, 1.25 * 8 + 2], abs=0.5)


def test_a_handler_that_hears_no_alarm_ends_with_its_process():
    """A loop that swallows everything, as foreign code that never comes back would."""
    code = """
        from tests.flower.test_mod import context, deadline_mod, fresh, turn
        turn.EXIT = (0.1, 1.5)

        def hangs(msg, context):
            while True:
                try:
                    sum(range(1000))
                except BaseException:
                    continue

        deadline_mod(fresh(deadline=0.2), context(), hangs)
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 1
    assert "Timeout" in found.stderr
    assert "hangs" in found.stderr  # where it hung
