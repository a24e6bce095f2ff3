"""Clients that are away, clients that drop out, a budget of time, and what is noted of jobs.

Two clients: 100 seconds a job, exactly on time, and 200.
"""

import numpy as np
import pytest
import torch

from fedcore.cli.grid import run_grid
from fedcore.config import Experiment
from fedcore.records import Waste
from fedcore.server.clock import Presence, VirtualClock
from fedcore.server.loop import Server
from fedcore.server.merge import aggregation
from fedcore.server.method import Action, Pace, Sampler, Strategy
from fedcore.server.state import ServerState, from_snapshot, to_snapshot
from fedcore.sources.clients import ClientSizes
from fedcore.strategies import fedavg
from fedcore.types import SIT_OUT, ClientProfile, LocalUpdate

SIZES = ClientSizes.of({0: 10, 1: 10})
START = ServerState({"w": torch.tensor([0.0])})
FAST, SLOW = ClientProfile(10, 1.0), ClientProfile(10, 0.5)


class Adding:
    """Trains by adding one, and remembers for whom."""

    def __init__(self):
        self.asked = []

    def run(self, params, assignments):
        self.asked += [a.client_id for a in assignments]
        return [LocalUpdate(a.client_id, {"w": params["w"] + 1}, 10) for a in assignments]


def everybody(asked):
    return {client: 1 for client in asked.sizes if client not in asked.busy}


def every_answer():
    """Asynchronous: a merge for every answer, and who answered is replaced at once."""
    pace = Pace(lambda seen: Action.MERGE if seen.answers else Action.WAIT, refill_at_once=True)
    return Strategy(fedavg.build().plan, aggregation("mean"), pace)


def serve(strategy=None, *, merges=3, profiles=None, bytes_=0, seed=5, **clock):
    own = VirtualClock(Adding(), 100.0, bytes_, **clock)
    asked = 10, 2, seed, merges
    profiles = profiles or {0: FAST, 1: SLOW}
    return Server(strategy or fedavg.build(), Sampler(everybody), own, profiles, SIZES, *asked)


def kinds(merged):
    return [(e["event"], e["client"], e["time"]) for e in merged.events]


def test_the_events_of_a_round_by_hand():
    """1,000 bytes at 100 a second each way: 10 seconds before the work, 10 after it."""
    linked = ClientProfile(10, 1.0, 100, 100)
    server = serve(profiles={0: linked, 1: SLOW}, bytes_=1000, merges=2)
    first, second = server.run(START)
    assert kinds(first) == [
        ("sent", 0, 0.0),
        ("sent", 1, 0.0),
        ("started", 1, 0.0),
        ("started", 0, 10.0),
        ("late", 0, 120.0),
        ("late", 1, 200.0),
        ("merged", 0, 200.0),
        ("merged", 1, 200.0),
    ]
    job = {"client": 0, "base_version": 0, "repeat": 0}
    own = [event for event in first.events if event["client"] == 0]
    assert own == [
        {"event": "sent", "time": 0.0, **job, "work": 100, "speed": 1.0, "bytes_down": 1000}
        | {"download": 10.0, "upload": 10.0, "deadline": 100.0, "promised": False},
        {"event": "started", "time": 10.0, **job},
        {"event": "late", "time": 120.0, **job, "work": 100, "bytes_up": 1000, "away": 0.0},
        {"event": "merged", "time": 200.0, **job, "staleness": 0},
    ]
    assert kinds(second)[0] == ("sent", 0, 200.0)
    assert second.state.time == 400.0


def test_staleness_is_noted_and_what_starts_later_is_noted_later():
    """Client 1 fetches its model for 150 seconds, while client 0 answers at 100, a merge each."""
    profiles = {0: FAST, 1: ClientProfile(10, 1.0, download=10.0)}
    strategy = every_answer()
    server = serve(strategy, profiles=profiles, bytes_=1500, merges=3)
    first, second, third = server.run(START)
    assert ("started", 1, 150.0) not in kinds(first)
    assert ("started", 1, 150.0) in kinds(second)
    late = next(e for e in third.events if e["event"] == "merged")
    assert (late["client"], late["time"], late["staleness"]) == (1, 250.0, 2)


class Scripted:
    """Everybody's absence by hand: (from, to) pairs by client."""

    def __init__(self, spans):
        self.spans = spans

    def away(self, time):
        gone = {c: to for c, pairs in self.spans.items() for a, to in pairs if a <= time < to}
        return frozenset(gone), min(gone.values()) if len(gone) == 2 else None

    def pause(self, client, time, seconds):
        paused = 0.0
        for a, to in self.spans.get(client, ()):
            if a < time + seconds + paused and to > time:
                paused += to - max(a, time)
        return paused


def test_who_is_away_is_not_drawn_and_who_goes_in_mid_job_is_late_by_that_much():
    presence = Scripted({0: [(150.0, 180.0)], 1: [(0.0, 50.0), (300.0, 320.0)]})
    rounds = list(serve(presence=presence).run(START))
    # round 1: client 0 alone, 0 to 100; round 2: both from 100 on, client 0 until 230, client 1
    # until 300; round 3 begins when client 1 is away again
    assert [merged.seconds for merged in rounds] == [100.0, 200.0, 100.0]
    assert [[c.client_id for c in merged.clients] for merged in rounds] == [[0], [0, 1], [0]]
    assert [client.seconds for client in rounds[1].clients] == [130.0, 200.0]
    late = next(e for e in rounds[1].events if e["event"] == "late" and e["client"] == 0)
    assert (late["time"], late["away"]) == (230.0, 30.0)


def test_being_away_in_the_middle_counts_even_for_those_who_are_back_at_the_end():
    """FedScale looks at the end of a job alone, and so finds such a client on time."""
    presence = Scripted({0: [(40.0, 60.0)]})
    (only,) = serve(presence=presence, merges=1).run(START)
    assert only.clients[0].seconds == 120.0


def test_where_everybody_is_away_time_passes_until_one_is_back():
    presence = Scripted({0: [(0.0, 70.0)], 1: [(0.0, 30.0)]})
    (only,) = serve(presence=presence, merges=1).run(START)
    assert [c.client_id for c in only.clients] == [1]
    assert only.seconds == pytest.approx(230.0, rel=1e-12)


def test_where_nobody_there_has_anything_to_do_time_passes_until_another_comes_or_goes():
    """Client 1 alone can work: it comes at 20 and is away from 50 until 120, so it ends at 290."""
    presence = Presence(SIZES, 1.0, 1.0, 0)
    presence._first = np.array([True, False])
    presence._ends = [np.array(row, float) for row in ([60, 20], [90, 50], [900, 120], [999, 999])]
    plan = fedavg.build().plan
    picky = Strategy(lambda c, d, e: SIT_OUT if c is FAST else plan(c, d, e), aggregation("mean"))
    rounds = list(serve(picky, presence=presence, budget=500.0).run(START))
    assert [merged.seconds for merged in rounds] == pytest.approx([20.0, 270.0, 200.0], rel=1e-12)
    worked = [[client.work > 0 for client in merged.clients] for merged in rounds]
    assert worked == [[False], [False, True], [False, True]]


def test_where_nobody_is_back_within_the_budget_the_run_is_over():
    presence = Scripted({0: [(0.0, 70.0)], 1: [(0.0, 90.0)]})
    (only,) = serve(presence=presence, budget=60.0).run(START)
    assert (only.seconds, only.clients, only.events, only.cut) == (60.0, (), (), True)


def test_a_lost_job_is_noticed_at_the_deadline_or_at_once_if_later():
    """All are lost. A client that works for 100 seconds is missed at 100; one for 200, later."""
    rounds = list(serve(dropout=1.0, merges=20).run(START))
    for merged in rounds:
        assert merged.state.params["w"].item() == 0.0  # nobody is heard of, and the server goes on
        assert [c.wasted for c in merged.clients] == [Waste.LOST] * 2
        fast, slow = merged.clients
        assert fast.seconds < 100
        assert merged.seconds == max(100.0, slow.seconds)
        lost = [e for e in merged.events if e["event"] == "lost"]
        assert [e["client"] for e in lost] == ([0, 1] if len(lost) == 2 else None)
    slow = [merged.clients[1].seconds for merged in rounds]
    assert min(slow) < 60  # anywhere in its 200 seconds of work
    assert max(slow) > 140


def test_lost_jobs_are_not_trained_and_as_many_as_asked_for():
    server = serve(dropout=0.25, merges=400)
    rounds = list(server.run(START))
    records = [client for merged in rounds for client in merged.clients]
    lost = sum(client.wasted is Waste.LOST for client in records)
    assert lost / 800 == pytest.approx(0.25, abs=0.061)  # 4 deviations
    trained = len(server.clock.executor.asked)
    assert trained == 800 - lost


def test_all_strategies_lose_the_same_jobs():
    one, other = (list(serve(dropout=0.5, merges=30, profiles=p).run(START)) for p in (None, {
        0: FAST, 1: FAST
    }))  # fmt: skip
    gone = [[(c.client_id, c.wasted) for merged in run for c in merged.clients]
            for run in (one, other)]  # fmt: skip
    assert gone[0] == gone[1]


def test_a_budget_ends_a_run_in_the_middle_of_a_round():
    """Rounds of 200 seconds, 500 seconds of time: the third is cut short, and merges nothing."""
    rounds = list(serve(budget=500.0, merges=9).run(START))
    assert [merged.seconds for merged in rounds] == [200.0, 200.0, 100.0]
    assert [merged.cut for merged in rounds] == [False, False, True]
    last = rounds[-1]
    assert torch.equal(last.state.params["w"], rounds[-2].state.params["w"])
    assert last.state.time == 500.0
    assert last.state.jobs == ()
    # client 0 answers at the very end, which is in time, but there is nothing to merge it with
    assert kinds(last)[-2:] == [("done", 0, 500.0), ("cancelled", 1, 500.0)]
    assert [c.wasted for c in last.clients] == [None, Waste.CANCELLED]


def test_who_would_answer_after_the_end_is_not_trained():
    """Client 0 answers after 100 seconds of 150, client 1 would after 200."""
    server = serve(budget=150.0, merges=9)
    (only,) = server.run(START)
    assert only.cut
    assert server.clock.executor.asked == [0]
    assert ("cancelled", 1, 150.0) in kinds(only)


def test_a_budget_does_not_change_a_chained_round_before_it_ends():
    """Who is left out would be missing where the next one begins."""
    losses = []
    for budget in (4.0, 40.0):  # the slowest answers in between
        given = {"strategies": ("fedasync",), "stragglers": (30.0,), "clients_per_round": 6}
        given |= {"data": {"clients": 12}, "first_round": "chained", "time_budget": budget}
        (rounds,) = run_grid(Experiment(**given), None)[1].values()
        losses.append(rounds[0].train_loss)
    assert losses[0] == losses[1]


def test_a_merge_at_the_very_end_of_the_budget_counts():
    rounds = list(serve(budget=400.0, merges=9).run(START))
    assert [(merged.seconds, merged.cut) for merged in rounds] == [
        (200.0, False), (200.0, False), (0.0, True)
    ]  # fmt: skip


@pytest.mark.parametrize("stopped", range(1, 12))
def test_what_may_go_wrong_survives_being_written_down(stopped):
    """Away, lost, asynchronous, budget: another server goes on as this one does, bit for bit."""

    def server():
        return serve(
            every_answer(),
            profiles={0: FAST, 1: ClientProfile(10, 0.3, download=7.0)},
            bytes_=130,
            merges=100,
            presence=Presence(SIZES, 150.0, 40.0, 3),
            dropout=0.3,
            budget=1500.0,
        )

    whole = list(server().run(START))
    assert whole[-1].cut
    assert len(whole) >= 9
    if stopped >= len(whole):
        stopped = len(whole) - 1
    other = server()
    saved = to_snapshot(whole[stopped - 1].state)
    state = from_snapshot(saved, torch.device("cpu"), other.assign)
    rest = list(other.run(state))
    for mine, expected in zip(rest, whole[stopped:], strict=True):
        assert (mine.seconds, mine.clients, mine.events, mine.cut) == (
            expected.seconds, expected.clients, expected.events, expected.cut
        )  # fmt: skip
        assert torch.equal(mine.state.params["w"], expected.state.params["w"])
        assert mine.state.time == expected.state.time
