"""The wall clock by itself: what it sends, what it hands on, when it gives up."""

import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import ConfigRecord
from tests.flower.grid import InProcessGrid, Time, adding, failing, silent

from fedcore.flower import FedCore
from fedcore.flower.clock import POLL, TTL, GridClock
from fedcore.flower.fleet import Fleet
from fedcore.flower.wire import SHIFT
from fedcore.server.clock import Clock
from fedcore.server.state import Job
from fedcore.types import Assignment, ClientProfile, LocalPlan, Phase, Way

BASE = {"w": torch.zeros(2)}
FULL = LocalPlan((Phase(2),), Way.FULL)


def clock_over(nodes, most=3600.0, bounded=True, **options):
    grid = InProcessGrid(Time(), nodes)
    owner = FedCore(local_epochs=2, grace=3.0, deadline=20.0, **options)
    owner.monotonic, owner.sleep = grid.time.monotonic, grid.time.sleep
    fleet = Fleet(8)
    fleet.meet(grid.get_nodes())
    clock: Clock = GridClock(grid, fleet, owner, ConfigRecord({"lr": 0.1}), most, bounded)
    clock.set_deadline()
    return clock, grid


def job(client, version=0, shift=None, sequence=0):
    told = Assignment(client, FULL, version, seed=0, shift=shift)
    return Job(told, ClientProfile(10, 1.0), 1, BASE, sequence)


def test_answers_come_in_the_order_of_time_with_the_seconds_they_took():
    clock, _ = clock_over({1: adding(1.0, trip=9.0), 2: adding(2.0, trip=4.0)})
    clock.send([job(0), job(1, sequence=1)])
    assert [j.sequence for j in clock.in_flight] == [0, 1]
    found = [clock.wait(20.0), clock.wait(20.0)]
    assert [
        (told.assignment.client_id, float(update.params["w"][0])) for told, update in found
    ] == [
        (1, 2.0),
        (0, 1.0),
    ]
    assert [update.seconds for _, update in found] == [pytest.approx(s, abs=POLL) for s in (4, 9)]
    assert len(clock) == 0


def test_the_alarm_rings_after_the_grace():
    clock, _ = clock_over({1: silent})
    clock.send([job(0)])
    assert clock.wait(20.0) is None
    assert 22.7 < clock.now <= 23.0


def test_a_slow_superlink_does_not_make_rounds_late():
    clock, grid = clock_over({1: silent, 2: silent})
    pull = grid.pull_messages

    def slowly(ids):
        grid.time.sleep(0.7)
        return pull(ids)

    grid.pull_messages = slowly
    clock.send([job(0), job(1, sequence=1)])
    assert clock.wait(20.0) is None
    assert 22.7 < clock.now <= 23.0


def test_where_nobody_is_out_nothing_is_waited_for():
    clock, grid = clock_over({1: failing(2, 1.0)})
    clock.send([job(0)])
    assert clock.wait(20.0) is None
    assert grid.time.now == pytest.approx(1001.0, abs=2 * POLL)


def test_without_an_alarm_a_failure_is_told_at_once():
    clock, grid = clock_over({1: failing(5, 1.0), 2: adding(1.0, trip=9.0)})
    clock.send([job(0), job(1, sequence=1)])
    assert clock.wait(None) is None
    assert grid.time.now == pytest.approx(1001.0, abs=2 * POLL)
    assert clock.wait(None)[0].assignment.client_id == 1


def test_time_begins_when_somebody_is_out_and_goes_on_over_a_merge():
    clock, grid = clock_over({1: adding(1.0, trip=4.0), 2: adding(1.0, trip=9.0)})
    grid.time.sleep(100)
    clock.send([job(0), job(1, sequence=1)])
    clock.wait(None)
    assert clock.now == pytest.approx(4.0, abs=POLL)
    clock.restart()
    clock.wait(None)
    assert clock.now == pytest.approx(5.0, abs=2 * POLL)


def test_a_shift_travels_as_a_record_of_its_own_and_a_model_as_one():
    clock, grid = clock_over({1: adding(1.0), 2: adding(1.0)})
    clock.send([job(0, shift={"w": torch.ones(2)}), job(1, sequence=1)])
    first, second = (message.content for _, _, message in grid.sent)
    assert first[SHIFT]["w"].numpy().tolist() == [1.0, 1.0]
    assert SHIFT not in second
    assert first["arrays"] is second["arrays"]


def test_a_strategy_without_a_deadline_has_the_time_it_needs():
    clock, grid = clock_over({1: silent}, most=500.0, bounded=False)
    clock.send([job(0)])
    assert grid.sent[0][1].deadline == 500.0
    assert grid.sent[0][2].metadata.ttl == TTL * 500
    assert clock.wait(20.0) is None
    assert 502.7 < clock.now <= 503.0


def test_only_plain_values_leave_the_server_beside_models():
    clock, grid = clock_over({1: silent})
    clock.send([job(0)])
    config = grid.sent[0][2].content["config"]
    assert sorted(config) == ["fedcore-order", "lr", "server-round"]
    assert all(isinstance(value, str | int | float) for value in config.values())
